// SPDX-License-Identifier: Apache-2.0
#include "harness/measure/self_test.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>

#include <fmt/core.h>

#include "harness/measure/memory_kernels.h"

namespace lossgrid {
namespace {

constexpr std::size_t kAllocationBytes = 1234567;
constexpr std::chrono::nanoseconds kSleep{5'000'000};
constexpr int kSleeps = 5;
constexpr int kLongestSleepFactor = 10;
constexpr std::size_t kCopyBytes = 8 << 20;
constexpr double kFastestCopy = 1e13;  // bytes per second

SelfTestCheck check_allocation(const MeasuringTools& tools) {
  const std::unique_ptr<Device> device = make_cpu_device();
  const MemoryTracker& tracker = device->tracker();
  const Buffer other = device->allocate(100, "other");
  const std::int64_t before = tracker.live_bytes();
  device->tracker().begin_phase("allocation");
  std::int64_t live = 0;
  {
    const Buffer buffer = tools.allocate(*device, kAllocationBytes);
    live = tracker.live_bytes() - before;
  }
  device->tracker().end_phase();
  const std::int64_t peak = tracker.phases().back().peak_bytes - before;
  const std::int64_t left = tracker.live_bytes() - before;
  constexpr auto kExpected = static_cast<std::int64_t>(kAllocationBytes);
  return {"allocation",
          live == kExpected && peak == kExpected && left == 0,
          static_cast<double>(kExpected),
          static_cast<double>(peak),
          "bytes",
          fmt::format("peak of one buffer; live {} bytes, {} after its release", live, left)};
}

SelfTestCheck check_sleep(const MeasuringTools& tools) {
  std::int64_t shortest_ns = std::numeric_limits<std::int64_t>::max();
  for (int k = 0; k < kSleeps; ++k) {
    const std::int64_t start = tools.now();
    tools.sleep(kSleep);
    shortest_ns = std::min(shortest_ns, tools.now() - start);
  }
  return {
      "sleep",
      shortest_ns >= kSleep.count() && shortest_ns <= kLongestSleepFactor * kSleep.count(),
      static_cast<double>(kSleep.count()),
      static_cast<double>(shortest_ns),
      "ns",
      fmt::format("shortest of {}, right up to {} times as long", kSleeps, kLongestSleepFactor)};
}

SelfTestCheck check_copy(const MeasuringTools& tools) {
  std::vector<std::uint32_t> from(kCopyBytes / sizeof(std::uint32_t));
  for (std::size_t k = 0; k < from.size(); ++k)
    from[k] = static_cast<std::uint32_t>(k) * 2654435761u;
  std::vector<std::uint32_t> to(from.size());
  tools.copy(from.data(), to.data(), kCopyBytes);  // chooses variants and touches pages
  std::fill(to.begin(), to.end(), 0u);
  const std::int64_t start = tools.now();
  tools.copy(from.data(), to.data(), kCopyBytes);
  const std::int64_t took_ns = tools.now() - start;
  const bool equal = to == from;
  const double rate =
      took_ns > 0 ? static_cast<double>(kCopyBytes) * 1e9 / static_cast<double>(took_ns) : 0;
  return {"copy",
          equal && took_ns > 0 && rate <= kFastestCopy,
          kFastestCopy,
          rate,
          "bytes/s",
          fmt::format("at most; {} bytes in {} ns, {}", kCopyBytes, took_ns,
                      equal ? "the copy is right" : "the copy is wrong")};
}

}  // namespace

MeasuringTools::MeasuringTools()
    : now(steady_clock_ns),
      allocate([](Device& device, std::size_t bytes) { return device.allocate(bytes, "meter"); }),
      sleep([](std::chrono::nanoseconds time) { std::this_thread::sleep_for(time); }),
      copy([](const void* from, void* to, std::size_t bytes) {
        run_memory_kernel(MemoryKernel::copy, MemoryVariant::plain, from, to, bytes);
      }) {}

std::vector<SelfTestCheck> run_self_test(const MeasuringTools& tools) {
  return {check_allocation(tools), check_sleep(tools), check_copy(tools)};
}

}  // namespace lossgrid
