// SPDX-License-Identifier: Apache-2.0
// One word of every cache line is enough to load the line. A fresh buffer was written by the thread
// that made it, so it has pages of its own and not one page of zeros.
#include "harness/measure/cache.h"

#include <atomic>

#include "harness/device/backend.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kLineBytes = 64;

}  // namespace

std::int64_t last_level_cache_bytes(Backend backend) {
  return traits_of(backend).last_level_cache_bytes();
}

std::int64_t cache_walk_bytes(Backend backend) {
  return last_level_cache_bytes(backend) * traits_of(backend).cache_walk_percent / 100;
}

CacheWalk::CacheWalk(Device& device)
    : device_(device),
      words_(device,
             static_cast<std::size_t>(cache_walk_bytes(device.backend())) / sizeof(std::uint64_t),
             "cache_walk", MemorySpace::device),
      memory_(device, cache_walk_bytes(device.backend())) {}

void CacheWalk::run() {
  if (traits_of(device_.backend()).launches_kernels) {
    memory_.run(MemoryKernel::read, MemoryVariant::plain, words_.data(), nullptr,
                static_cast<std::int64_t>(words_.buffer().bytes()));
    return;
  }
  constexpr std::int64_t kStep = kLineBytes / static_cast<std::int64_t>(sizeof(std::uint64_t));
  static std::atomic<std::uint64_t> sink;  // keeps the reads from being optimised away
  parallel_for(static_cast<std::int64_t>(words_.size()) / kStep,
               [&](std::int64_t begin, std::int64_t end) {
                 std::uint64_t sum = 0;
                 for (std::int64_t k = begin; k < end; ++k) {
                   sum += words_[static_cast<std::size_t>(k * kStep)];
                 }
                 sink.fetch_add(sum, std::memory_order_relaxed);
               });
}

}  // namespace lossgrid
