// SPDX-License-Identifier: Apache-2.0
#include "harness/measure/memory_rates.h"

#include <algorithm>
#include <array>
#include <vector>

#include "harness/core/clock.h"
#include "harness/measure/device_memory.h"
#include "harness/measure/statistics.h"

namespace lossgrid {
namespace {

constexpr std::array kRatedKernels{MemoryKernel::read, MemoryKernel::copy, MemoryKernel::update};
constexpr int kPasses = 11;
constexpr double kPassQuantile = 0.2;
constexpr std::int64_t kLeastSampleBytes = std::int64_t{1} << 26;  // milliseconds

}  // namespace

std::map<MemoryKernel, double> memory_rates(Device& device, std::int64_t bytes) {
  DeviceArray<std::uint32_t> from(device, static_cast<std::size_t>(bytes / 4), "rated_from");
  DeviceArray<std::uint32_t> to(device, static_cast<std::size_t>(bytes / 4), "rated_to");
  std::fill(from.begin(), from.end(), 0u);  // untouched pages are not memory yet
  std::fill(to.begin(), to.end(), 0u);
  DeviceMemory memory(device, bytes);
  const std::int64_t repeats = std::max<std::int64_t>(1, kLeastSampleBytes / bytes);
  std::map<MemoryKernel, double> rates;
  for (const MemoryKernel kernel : kRatedKernels) {
    const double moved = (kernel == MemoryKernel::read ? 1.0 : 2.0) * static_cast<double>(bytes);
    for (const MemoryVariant variant : variants_of(kernel, device.backend())) {
      std::vector<double> seconds;
      for (int pass = 0; pass < kPasses; ++pass) {
        const std::int64_t start = steady_clock_ns();
        for (std::int64_t k = 0; k < repeats; ++k) {
          memory.run(kernel, variant, from.data(), to.data(), bytes);
        }
        device.synchronise();
        const std::int64_t ns = std::max<std::int64_t>(1, steady_clock_ns() - start);
        seconds.push_back(1e-9 * static_cast<double>(ns) / static_cast<double>(repeats));
      }
      rates[kernel] = std::max(rates[kernel], moved / quantile(seconds, kPassQuantile));
    }
  }
  return rates;
}

}  // namespace lossgrid
