// SPDX-License-Identifier: Apache-2.0
// HostBlock: a block of threads of a kernel, emulated on the processor (portable.h). Threads run
// one after the other; reductions add in the same order as on a GPU. HostLauncher: launches.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/device/device_work.h"
#include "harness/device/kernel/portable.h"
#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {

class HostBlock {
 public:
  HostBlock(std::int64_t index, std::byte* shared) : index_(index), shared_(shared) {}

  std::int64_t index() const { return index_; }
  int threads() const { return kBlockThreads; }
  /// Returns the shared memory of the block.
  std::byte* shared() const { return shared_; }
  /// Returns the place of vector v of a row in the shared memory of its thread's block.
  std::int64_t place_on_chip(std::int64_t v) const { return v; }

  /// Returns f(thread) of every thread.
  template <typename F>
  auto each(F&& f) const {
    std::vector<decltype(f(0))> values;
    values.reserve(kBlockThreads);
    for (int thread = 0; thread < kBlockThreads; ++thread) values.push_back(f(thread));
    return values;
  }
  /// Calls f(thread) of every thread.
  template <typename F>
  void run(F&& f) const {
    for (int thread = 0; thread < kBlockThreads; ++thread) f(thread);
  }
  /// Returns the value of `each` that belongs to a thread, in the code of that thread.
  template <typename T>
  const T& of(const std::vector<T>& values, int thread) const {
    return values[static_cast<std::size_t>(thread)];
  }
  /// Calls f on the first thread alone.
  template <typename F>
  void one(F&& f) const {
    f();
  }
  void sync() const {}

  /// Reduces the values of all threads by merge(a, b), as a tree within every warp, then as a tree
  /// over the warps; all threads get the result. `none` is the neutral element of merge.
  template <typename T, typename Merge>
  T reduce(std::vector<T> values, const T& none, Merge&& merge) const {
    constexpr int kWarp = 32;
    constexpr int kWarps = kBlockThreads / kWarp;
    for (int warp = 0; warp < kWarps; ++warp) reduce_warp(values.data() + warp * kWarp, merge);
    std::vector<T> of_warps(kWarp, none);
    for (int warp = 0; warp < kWarps; ++warp) {
      of_warps[static_cast<std::size_t>(warp)] = values[static_cast<std::size_t>(warp) * kWarp];
    }
    reduce_warp(of_warps.data(), merge);
    return of_warps[0];
  }

 private:
  template <typename T, typename Merge>
  static void reduce_warp(T* values, Merge&& merge) {
    for (int offset = 16; offset > 0; offset /= 2) {
      for (int lane = 0; lane < offset; ++lane) {
        values[lane] = merge(values[lane], values[lane + offset]);
      }
    }
  }

  std::int64_t index_;
  std::byte* shared_;
};

/// Runs `blocks` blocks of a kernel with the threads of the rank, and counts their traffic of rows
/// for the calling thread, which is the thread of the rank.
struct HostLauncher {
  template <typename Kernel>
  void operator()(const Kernel& kernel, std::int64_t blocks, std::size_t shared_bytes) const {
    std::atomic<std::int64_t> read_bytes = 0;
    std::atomic<std::int64_t> written_bytes = 0;
    parallel_for(blocks, [&](std::int64_t begin, std::int64_t end) {
      thread_row_traffic() = {};
      std::vector<std::byte> shared(shared_bytes + kAlignment);
      const auto over = reinterpret_cast<std::uintptr_t>(shared.data()) % kAlignment;
      for (std::int64_t index = begin; index < end; ++index) {
        HostBlock block(index, shared.data() + (kAlignment - over) % kAlignment);
        kernel(block);
      }
      read_bytes += thread_row_traffic().read_bytes;
      written_bytes += thread_row_traffic().written_bytes;
    });
    device_work().rows += {read_bytes, written_bytes};
  }

  /// Returns the number of blocks of a kernel that run at once.
  template <typename Kernel>
  std::int64_t blocks_at_once(const Kernel& /*kernel*/) const {
    return 3;
  }

  /// Returns less than the room on any GPU, so that tests have rows that do not fit.
  std::int64_t room_of_block() const { return 16 * 1024; }

 private:
  static constexpr std::size_t kAlignment = 16;
};

}  // namespace lossgrid
