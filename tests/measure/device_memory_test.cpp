// SPDX-License-Identifier: Apache-2.0
// Passes over the memory of a GPU, block by block on the processor: right in every variant, for
// sizes that are no multiple of a vector or a piece, without writes elsewhere.
#include "harness/measure/device_memory.h"

#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"
#include "harness/device/memory/host_view.h"

namespace lossgrid {
namespace {

using Octets = std::vector<std::uint8_t>;

constexpr std::int64_t kPassSizes[] = {1, 3, 4, 16, 19, 8192, 32768, 32788, 100003, 200000, 262144};

Octets octets(std::int64_t size, std::uint32_t seed) {
  Octets made(static_cast<std::size_t>(size));
  for (std::size_t k = 0; k < made.size(); ++k) {
    made[k] = static_cast<std::uint8_t>(((k + seed) * 2654435761u) >> 11);
  }
  return made;
}

Buffer on_device(Device& device, const Octets& values) {
  Buffer buffer = device.allocate(values.size(), "tensor", MemorySpace::device);
  device.copy(buffer.data(), values.data(), values.size());
  return buffer;
}

Octets found_in(const Buffer& buffer) {
  const HostView view(buffer);
  const auto values = view.as<const std::uint8_t>();
  return {values.begin(), values.end()};
}

void expect_pass(MemoryKernel kernel, MemoryVariant variant, std::int64_t size) {
  SCOPED_TRACE(testing::Message() << name(kernel) << " " << name(variant) << " of " << size);
  const std::unique_ptr<Device> device = make_emulated_device();
  const Octets from = octets(size, 1);
  Octets to = octets(size, 77);
  const Buffer source = on_device(*device, from);
  Buffer target = on_device(*device, to);
  DeviceMemory memory(*device, size);
  device_work() = {};
  memory.run(kernel, variant, source.data(), target.data(), size);
  EXPECT_EQ(device_work().launches, 1);
  std::uint32_t sum = 0;
  for (std::size_t k = 0; k + 4 <= from.size(); k += 4) {
    std::uint32_t word;
    std::memcpy(&word, from.data() + k, sizeof(word));
    sum += word;
    if (kernel == MemoryKernel::update) to[k + 3] ^= 0x80;
  }
  if (kernel == MemoryKernel::copy) to = from;
  if (kernel == MemoryKernel::read) {
    EXPECT_EQ(memory.sum_of_read(size), sum);
  }
  EXPECT_EQ(found_in(target), to);
  EXPECT_EQ(found_in(source), from);
  EXPECT_TRUE(device->take_broken_guards().empty());
}

TEST(DeviceMemory, PassesOnAGpuAreRight) {
  for (const MemoryKernel kernel : {MemoryKernel::read, MemoryKernel::copy, MemoryKernel::update}) {
    const auto variants = variants_of(kernel, Backend::cuda_emulated);
    EXPECT_EQ(variants.size(), kernel == MemoryKernel::copy ? 4u : 3u);
    for (const MemoryVariant variant : variants) {
      for (const std::int64_t size : kPassSizes) expect_pass(kernel, variant, size);
    }
  }
}

TEST(DeviceMemory, TakesWhatIsPlanned) {
  const std::unique_ptr<Device> gpu = make_emulated_device();
  const std::unique_ptr<Device> cpu = make_cpu_device();
  for (Device* device : {gpu.get(), cpu.get()}) {
    const DeviceMemory memory(*device, 100003);
    const std::int64_t planned = DeviceMemory::memory_bytes(100003, device->backend());
    EXPECT_EQ(device->tracker().live_bytes(), planned);
    EXPECT_EQ(planned, device == cpu.get() ? 0 : 4 * 4);
  }
}

TEST(DeviceMemory, UsesTheKernelsOfThreadsOnAProcessor) {
  const std::unique_ptr<Device> device = make_cpu_device();
  const Octets from = octets(4100, 1);
  Octets to(from.size());
  DeviceMemory memory(*device, 4100);
  memory.run(MemoryKernel::copy, MemoryVariant::library, from.data(), to.data(), 4100);
  EXPECT_EQ(to, from);
  EXPECT_EQ(variants_of(MemoryKernel::read, Backend::cpu).data(),
            variants_of(MemoryKernel::read).data());
}

}  // namespace
}  // namespace lossgrid
