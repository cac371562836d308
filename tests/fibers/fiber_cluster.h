// SPDX-License-Identifier: Apache-2.0
// FiberCluster: the blocks of a cluster (harness/device/cuda/device_cluster.cuh), each a FiberBlock
// on a thread of the processor of its own, as one block of all of their threads.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include "fibers/fiber_block.h"
#include "harness/core/error.h"

namespace lossgrid {

/// Barrier and values that the blocks of a cluster share.
struct ClusterState {
  explicit ClusterState(int blocks) : arrivals(blocks), values(static_cast<std::size_t>(blocks)) {}

  static constexpr std::size_t kMostBytes = 512;
  struct Values {
    alignas(std::max_align_t) std::byte of_blocks[8][kMostBytes];
  };
  std::barrier<> arrivals;
  std::vector<Values> values;  // by block that reads them
};

class FiberCluster : public ThreadOfBlock<FiberCluster> {
 public:
  using Site = std::source_location;

  FiberCluster(FiberBlock& block, ClusterState& state, std::int64_t index, int rank)
      : block_(block), state_(state), index_(index), rank_(rank) {}

  std::int64_t index() const { return index_; }
  int threads() const { return blocks() * kBlockThreads; }
  std::byte* shared() const { return block_.shared(); }
  std::int64_t place_on_chip(std::int64_t v) const {
    return v / threads() * kBlockThreads + block_.thread();
  }
  void sync(const Site& site = Site::current()) {
    block_.sync(site);
    if (block_.thread() == 0) state_.arrivals.arrive_and_wait();
    block_.sync(site);
  }
  template <typename T, typename Merge>
  T reduce(T value, const T& none, Merge&& merge, const Site& site = Site::current()) {
    static_assert(sizeof(T) <= ClusterState::kMostBytes);
    const T own = block_.reduce(value, none, merge, site);
    sync(site);
    const int other = block_.thread();
    if (other < blocks()) {
      auto& values = state_.values[static_cast<std::size_t>(other)];
      std::memcpy(values.of_blocks[rank_], &own, sizeof(T));
    }
    sync(site);
    T whole = value_of(0, own);
    for (int block = 1; block < blocks(); ++block) whole = merge(whole, value_of(block, own));
    return whole;
  }

  /// Returns the number of the thread in the cluster.
  int thread() const { return rank_ * kBlockThreads + block_.thread(); }

 private:
  int blocks() const { return static_cast<int>(state_.values.size()); }
  template <typename T>
  T value_of(int block, T value) const {
    std::memcpy(&value, state_.values[static_cast<std::size_t>(rank_)].of_blocks[block], sizeof(T));
    return value;
  }

  FiberBlock& block_;
  ClusterState& state_;
  const std::int64_t index_;
  const int rank_;
};

/// Runs a kernel on `clusters` clusters, one after the other. Shared memory holds NaN at first.
template <typename Kernel>
void run_in_clusters(const Kernel& kernel, std::int64_t clusters, int blocks,
                     std::size_t shared_bytes, std::uint64_t seed) {
  for (std::int64_t index = 0; index < clusters; ++index) {
    ClusterState state(blocks);
    std::vector<std::string> errors(static_cast<std::size_t>(blocks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < blocks; ++rank) {
      threads.emplace_back([&, rank] {
        struct alignas(16) Line {
          std::byte bytes[16];
        };
        std::vector<Line> shared(shared_bytes / sizeof(Line) + 1);
        std::memset(static_cast<void*>(shared.data()), 0xFF, shared.size() * sizeof(Line));
        Fibers& fibers = Fibers::of_this_thread();
        const auto block =
            std::make_unique<FiberBlock>(fibers, index * blocks + rank, shared[0].bytes, -1);
        FiberCluster cluster(*block, state, index, rank);
        try {
          fibers.run(seed + static_cast<std::uint64_t>(index * blocks + rank),
                     [&](int) { kernel(cluster); });
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
          state.arrivals.arrive_and_drop();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) {
      if (!error.empty()) throw Error(ErrorCode::internal, error);
    }
  }
}

}  // namespace lossgrid
