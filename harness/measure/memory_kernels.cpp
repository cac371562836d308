// SPDX-License-Identifier: Apache-2.0
// A pass is shared out among the threads in blocks of a page, so that parts keep the alignment of
// the buffer. The choice is made under a lock, one rank at a time; the others wait for it, and no
// rank communicates here. A variant that a busy moment made look slow costs a few percent, so that
// of each the best time counts.
#include "harness/measure/memory_kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <fmt/core.h>

#include "harness/core/clock.h"
#include "harness/device/rank_threads.h"
#include "harness/measure/interleave.h"
#include "harness/measure/memory_sweep.h"

namespace lossgrid {
namespace {

constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kInCacheBytes = 256 << 10;
constexpr int kRounds = 8;  // even: update leaves the buffer as it was

constexpr std::array kVariants{MemoryVariant::plain, MemoryVariant::prefetch,
                               MemoryVariant::streaming, MemoryVariant::streaming_prefetch,
                               MemoryVariant::library};

/// Kernel, largest size in bytes, threads.
using Situation = std::tuple<MemoryKernel, std::size_t, int>;

struct Choices {
  std::mutex mutex;
  std::map<Situation, MemoryVariant> variants;
};

Choices& choices() {
  static Choices all;
  return all;
}

MemoryVariant choose(MemoryKernel kernel, const void* from, void* to, std::size_t bytes) {
  if (bytes <= kInCacheBytes) return MemoryVariant::plain;
  const Situation situation{kernel, std::bit_ceil(bytes), rank_threads()};
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const auto known = all.variants.find(situation);
  if (known != all.variants.end()) return known->second;
  const MemoryVariant fastest =
      fastest_variant(variants_of(kernel), [&](MemoryVariant variant) -> std::int64_t {
        const std::int64_t start = steady_clock_ns();
        run_memory_kernel(kernel, variant, from, to, bytes);
        return steady_clock_ns() - start;
      });
  all.variants.emplace(situation, fastest);
  return fastest;
}

}  // namespace

std::string_view name(MemoryKernel kernel) {
  constexpr std::array<std::string_view, 3> kNames{"read", "copy", "update"};
  return kNames[static_cast<std::size_t>(kernel)];
}

std::string_view name(MemoryVariant variant) {
  constexpr std::array<std::string_view, 5> kNames{"plain", "prefetch", "streaming",
                                                   "streaming_prefetch", "library"};
  return kNames[static_cast<std::size_t>(variant)];
}

std::span<const MemoryVariant> variants_of(MemoryKernel kernel) {
  const std::span<const MemoryVariant> all(kVariants);
  switch (kernel) {
    case MemoryKernel::read:
      return all.first(2);  // no stores
    case MemoryKernel::update:
      return all.first(4);
    default:
      return all;
  }
}

std::uint32_t run_memory_kernel(MemoryKernel kernel, const void* from, void* to,
                                std::size_t bytes) {
  return run_memory_kernel(kernel, choose(kernel, from, to, bytes), from, to, bytes);
}

std::uint32_t run_memory_kernel(MemoryKernel kernel, MemoryVariant variant, const void* from,
                                void* to, std::size_t bytes) {
  const auto* in = static_cast<const std::byte*>(from);
  auto* out = static_cast<std::byte*>(to);
  std::atomic<std::uint32_t> sum{0};
  parallel_for(static_cast<std::int64_t>((bytes + kBlockBytes - 1) / kBlockBytes),
               [&](std::size_t begin, std::size_t end) {
                 sum += sweep_memory(kernel, variant, in, out, begin * kBlockBytes,
                                     std::min(end * kBlockBytes, bytes));
               });
  return sum;
}

std::string memory_kernel_details() {
  std::string text(memory_sweep_target());
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  for (const auto& [situation, variant] : all.variants) {
    const auto& [kernel, bytes, threads] = situation;
    text += bytes >= (1 << 20) ? fmt::format("; {} up to {} MiB", name(kernel), bytes >> 20)
                               : fmt::format("; {} up to {} KiB", name(kernel), bytes >> 10);
    text += fmt::format(", {} thread{}: {}", threads, threads == 1 ? "" : "s", name(variant));
  }
  return text;
}

MemoryVariant fastest_variant(std::span<const MemoryVariant> variants,
                              const std::function<std::int64_t(MemoryVariant)>& time_ns) {
  std::vector<std::int64_t> best_ns(variants.size(), std::numeric_limits<std::int64_t>::max());
  std::vector<std::size_t> order(variants.size());
  for (int round = 0; round < kRounds; ++round) {
    constexpr std::uint64_t kOrderSeed = 1;
    round_order(kOrderSeed, round, order);
    for (const std::size_t k : order) {
      best_ns[k] = std::min(best_ns[k], time_ns(variants[k]));
    }
  }
  return variants[static_cast<std::size_t>(std::min_element(best_ns.begin(), best_ns.end()) -
                                           best_ns.begin())];
}

}  // namespace lossgrid
