// SPDX-License-Identifier: Apache-2.0
// FiberBlock: a block of a CUDA kernel (harness/device/kernel/portable.h) whose threads are fibers,
// in the order of a seed. Each runs the whole kernel, as on a GPU: a missing barrier changes what
// it reads, a barrier that some threads miss is an error. FiberLauncher: launches, with blocks in
// the order of a seed, and shared memory that holds NaN at first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "fibers/fibers.h"
#include "harness/core/error.h"
#include "harness/core/philox.h"
#include "harness/core/process/sanitizers.h"
#include "harness/device/device_work.h"
#include "harness/device/kernel/block_reduce.h"
#include "harness/device/kernel/host_block.h"

namespace lossgrid {

/// Order of threads and blocks, and what is left out to see whether that is found.
struct FiberOrder {
  std::uint64_t seed = 0;
  int skipped_barrier = -1;  // of every block, in the order in which a thread comes to them
};

/// The part of a block that is the code of one thread. Block::thread() returns its number.
template <typename Block>
class ThreadOfBlock {
 public:
  template <typename F>
  auto each(F&& f) const {
    return f(own());
  }
  template <typename F>
  void run(F&& f) const {
    f(own());
  }
  template <typename T>
  const T& of(const T& value, int /*thread*/) const {
    return value;
  }
  template <typename F>
  void one(F&& f) const {
    if (own() == 0) f();
  }

 private:
  int own() const { return static_cast<const Block*>(this)->thread(); }
};

class FiberBlock : public ThreadOfBlock<FiberBlock> {
 public:
  using Site = std::source_location;

  FiberBlock(Fibers& fibers, std::int64_t index, std::byte* shared, int skipped_barrier)
      : fibers_(fibers), index_(index), shared_(shared), skipped_barrier_(skipped_barrier) {}

  std::int64_t index() const { return index_; }
  int threads() const { return kBlockThreads; }
  std::byte* shared() const { return shared_; }
  std::int64_t place_on_chip(std::int64_t v) const { return v; }

  void sync(const Site& site = Site::current()) {
    if (barriers(thread()) != skipped_barrier_) fibers_.wait_for_block({site, outer(thread())});
  }
  template <typename T, typename Merge>
  T reduce(T value, const T& none, Merge&& merge, const Site& site = Site::current()) {
    set_outer(thread(), site);
    const T whole = reduce_by_warps(*this, value, none, merge);
    set_outer(thread(), Site());
    return whole;
  }

  // For reduce_by_warps:
  int thread() const { return fibers_.thread(); }
  template <typename T>
  T* of_warps() {
    static_assert(sizeof(T) <= kMostBytes && alignof(T) <= alignof(std::max_align_t));
    return reinterpret_cast<T*>(of_warps_);
  }
  template <typename T>
  T from_lane_below(const T& value, int offset, const Site& site = Site::current()) {
    static_assert(sizeof(T) <= kMostBytes && std::is_trivially_copyable_v<T>);
    const int own = thread();
    auto& lanes = in_flight_[turn(own)];
    move(lanes[own], &value, sizeof(T));
    fibers_.wait_for_warp({site, outer(own)});
    const int lane = own % kWarpThreads + offset;
    T found = value;
    move(&found, lanes[lane < kWarpThreads ? own + offset : own], sizeof(T));
    return found;
  }

 private:
  static constexpr std::size_t kMostBytes = 512;  // of a value that threads exchange

  // Notes of fibers about their way through the kernel are no memory of a GPU.
  LOSSGRID_UNWATCHED int barriers(int thread) { return barriers_[thread]++; }
  LOSSGRID_UNWATCHED int turn(int thread) { return shuffles_[thread]++ % 2; }
  LOSSGRID_UNWATCHED Site outer(int thread) const { return outer_[thread]; }
  LOSSGRID_UNWATCHED void set_outer(int thread, const Site& site) { outer_[thread] = site; }
  /// Copies as a shuffle does: through no memory that the sanitizer sees.
  LOSSGRID_UNWATCHED static void move(void* to, const void* from, std::size_t bytes) {
    for (std::size_t k = 0; k < bytes; ++k) {
      static_cast<volatile std::byte*>(to)[k] = static_cast<const volatile std::byte*>(from)[k];
    }
  }

  Fibers& fibers_;
  const std::int64_t index_;
  std::byte* const shared_;
  const int skipped_barrier_;
  int barriers_[kBlockThreads] = {};
  int shuffles_[kBlockThreads] = {};
  Site outer_[kBlockThreads] = {};
  // A lane writes its next but one value when all lanes have read this one.
  std::byte in_flight_[2][kBlockThreads][kMostBytes];
  alignas(std::max_align_t) std::byte of_warps_[kWarpThreads * kMostBytes];
};

class FiberLauncher {
 public:
  explicit FiberLauncher(const FiberOrder& order) : order_(order) {}

  template <typename Kernel>
  void operator()(const Kernel& kernel, std::int64_t blocks, std::size_t shared_bytes) const {
    thread_row_traffic() = {};
    std::vector<std::int64_t> indices(static_cast<std::size_t>(blocks));
    std::iota(indices.begin(), indices.end(), 0);
    const RandomStream random(order_.seed, 1);
    for (std::size_t k = indices.size(); k > 1; --k) {
      std::swap(indices[k - 1], indices[random.below(static_cast<std::uint32_t>(k), k)]);
    }
    for (const std::int64_t index : indices) {
      constexpr std::size_t kVector = 16;
      std::vector<std::byte> shared(shared_bytes + kVector, std::byte{0xFF});
      const auto over = reinterpret_cast<std::uintptr_t>(shared.data()) % kVector;
      Fibers& fibers = Fibers::of_this_thread();
      const auto block = std::make_unique<FiberBlock>(
          fibers, index, shared.data() + (kVector - over) % kVector, order_.skipped_barrier);
      try {
        fibers.run(order_.seed + static_cast<std::uint64_t>(index), [&](int) { kernel(*block); });
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("block {}: {}", index, error.what()));
      }
    }
    device_work().rows += thread_row_traffic();
  }

  std::int64_t room_of_block() const { return HostLauncher().room_of_block(); }
  template <typename Kernel>
  std::int64_t blocks_at_once(const Kernel& kernel) const {
    return HostLauncher().blocks_at_once(kernel);
  }

 private:
  FiberOrder order_;
};

}  // namespace lossgrid
