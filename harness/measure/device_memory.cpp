// SPDX-License-Identifier: Apache-2.0
#include "harness/measure/device_memory.h"

#include <array>
#include <numeric>

#include "harness/core/error.h"
#include "harness/device/backend.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"
#include "harness/device/kernel/host_block.h"
#include "harness/device/memory/host_memory.h"
#include "harness/device/memory/host_view.h"
#include "harness/measure/cuda/memory_pass-inl.h"

namespace lossgrid {
namespace {

constexpr std::array kOnGpu{MemoryVariant::plain, MemoryVariant::streaming,
                            MemoryVariant::persistent, MemoryVariant::library};

std::int64_t sums_for(std::int64_t bytes, Backend backend) {
  return traits_of(backend).launches_kernels ? piece_count(bytes) : 0;
}

void emulate(EmulatedStream& stream, const CudaMemoryPass& pass) {
  stream.launch([pass] {
    if (pass.variant == MemoryVariant::library) {
      return copy_on_host(pass.to, pass.from, static_cast<std::size_t>(pass.bytes));
    }
    HostLauncher launcher;
    launch_memory_pass(launcher, pass);
  });
}

}  // namespace

std::span<const MemoryVariant> variants_of(MemoryKernel kernel, Backend backend) {
  if (!traits_of(backend).launches_kernels) return variants_of(kernel);
  const std::span<const MemoryVariant> all(kOnGpu);
  return kernel == MemoryKernel::copy ? all : all.first(3);
}

DeviceMemory::DeviceMemory(Device& device, std::int64_t bytes)
    : device_(device),
      sums_(device, static_cast<std::size_t>(sums_for(bytes, device.backend())), "pass_sums",
            MemorySpace::device) {}

std::int64_t DeviceMemory::memory_bytes(std::int64_t bytes, Backend backend) {
  return sums_for(bytes, backend) * static_cast<std::int64_t>(sizeof(std::uint32_t));
}

void DeviceMemory::run(MemoryKernel kernel, MemoryVariant variant, const void* from, void* to,
                       std::int64_t bytes) {
  const BackendTraits& traits = traits_of(device_.backend());
  if (!traits.launches_kernels) {
    run_memory_kernel(kernel, variant, from, to, static_cast<std::size_t>(bytes));
    return;
  }
  const CudaMemoryPass pass{kernel, variant, from, to, bytes, sums_.data()};
  count_launch();
  if (!traits.is_gpu) {
    return emulate(*static_cast<EmulatedStream*>(device_.stream()), pass);
  }
  const char* error = cuda_memory_pass(device_.stream(), pass);
  if (error != nullptr) {
    throw_cuda_failure(fmt::format("CUDA kernel {}", name(kernel)).c_str(), error);
  }
}

std::uint32_t DeviceMemory::sum_of_read(std::int64_t bytes) {
  const HostView view(sums_.buffer());
  const auto sums =
      view.as<const std::uint32_t>().first(static_cast<std::size_t>(piece_count(bytes)));
  return std::accumulate(sums.begin(), sums.end(), std::uint32_t{0});
}

}  // namespace lossgrid
