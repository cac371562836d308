// SPDX-License-Identifier: Apache-2.0
// One word of every cache line is enough to bring the line in. A fresh buffer was written by the
// thread that made it, so it has pages of its own and not one page of zeros.
#include "harness/measure/cache.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>

#include <unistd.h>

#include "harness/core/error.h"
#include "harness/device/cuda/cuda_timing.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kLineBytes = 64;

/// "32768K" -> bytes, 0 when there is no such file.
std::int64_t size_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t size = 0;
  char unit = ' ';
  if (!(file >> size)) return 0;
  file >> unit;
  return unit == 'K' ? size * 1024 : unit == 'M' ? size * 1024 * 1024 : size;
}

std::int64_t find_last_level() {
  constexpr int kMostCaches = 8;
  std::int64_t largest = 0;
  for (int k = 0; k < kMostCaches; ++k) {
    largest = std::max(largest,
                       size_in(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", k)));
  }
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (largest <= 0) largest = ::sysconf(level);
  }
  return largest > 0 ? largest : std::int64_t{32} << 20;
}

}  // namespace

std::int64_t last_level_cache_bytes(Backend backend) {
  static const std::int64_t of_processor = find_last_level();
  switch (backend) {
    case Backend::cuda:
      return cuda_l2_bytes();
    case Backend::cuda_emulated:
      return std::int64_t{1} << 20;
    default:
      return of_processor;
  }
}

std::int64_t cache_walk_bytes(Backend backend) {
  const std::int64_t cache = last_level_cache_bytes(backend);
  return backend == Backend::cpu ? cache + cache / 4 : 4 * cache;
}

CacheWalk::CacheWalk(Device& device)
    : device_(device),
      words_(device,
             static_cast<std::size_t>(cache_walk_bytes(device.backend())) / sizeof(std::uint64_t),
             "cache_walk", MemorySpace::device),
      memory_(device, cache_walk_bytes(device.backend())) {}

void CacheWalk::run() {
  if (device_.backend() != Backend::cpu) {
    memory_.run(MemoryKernel::read, MemoryVariant::plain, words_.data(), nullptr,
                static_cast<std::int64_t>(words_.buffer().bytes()));
    return;
  }
  constexpr std::int64_t kStep = kLineBytes / static_cast<std::int64_t>(sizeof(std::uint64_t));
  static std::atomic<std::uint64_t> sink;  // what is read must be needed
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
