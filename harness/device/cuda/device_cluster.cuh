// SPDX-License-Identifier: Apache-2.0
// DeviceCluster: the blocks of a thread-block cluster (CUDA C++ Programming Guide, "Thread Block
// Clusters", sm_90 on) as one block with all of their threads (portable.h). A row that is too long
// for the shared memory of one block may fit into the shared memory of several blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cooperative_groups.h>

#include "harness/device/cuda/device_block.cuh"
#include "harness/device/kernel/rows_on_chip.h"

namespace lossgrid {

#ifdef _CG_HAS_CLUSTER_GROUP

class DeviceCluster {
 public:
  __device__ DeviceCluster()
      : blocks_(static_cast<int>(cooperative_groups::this_cluster().num_blocks())),
        rank_(static_cast<int>(cooperative_groups::this_cluster().block_rank())) {
    while ((1 << shift_) < threads()) ++shift_;
  }

  __device__ std::int64_t index() const { return blockIdx.x / static_cast<unsigned>(blocks_); }
  __device__ int threads() const { return blocks_ * kBlockThreads; }
  /// Returns the shared memory of this thread's block.
  __device__ std::byte* shared() const { return block_.shared(); }
  /// Returns the place, in the shared memory of its thread's block, of vector v of a row whose
  /// vectors the threads share in turns.
  __device__ std::int64_t place_on_chip(std::int64_t v) const {
    return (v >> shift_) * kBlockThreads + threadIdx.x;
  }

  template <typename F>
  __device__ auto each(F&& f) const {
    return f(thread());
  }
  template <typename F>
  __device__ void run(F&& f) const {
    f(thread());
  }
  template <typename T>
  __device__ const T& of(const T& value, int /*thread*/) const {
    return value;
  }
  template <typename F>
  __device__ void one(F&& f) const {
    if (thread() == 0) f();
  }
  /// Waits for all threads of the cluster, and makes writes to device memory visible to them.
  __device__ void sync() const { cooperative_groups::this_cluster().sync(); }

  /// Reduces within every block, then over the blocks in their order.
  template <typename T, typename Merge>
  __device__ T reduce(T value, const T& none, Merge&& merge) const {
    __shared__ T of_blocks[kMostClusterBlocks];
    const T own = block_.reduce(value, none, merge);
    sync();  // all blocks have begun, and have read the values of the previous reduction
    const int other = static_cast<int>(threadIdx.x);
    if (other < blocks_) {
      *cooperative_groups::this_cluster().map_shared_rank(&of_blocks[rank_], other) = own;
    }
    sync();
    T whole = of_blocks[0];
    for (int block = 1; block < blocks_; ++block) whole = merge(whole, of_blocks[block]);
    return whole;
  }

 private:
  __device__ int thread() const { return rank_ * kBlockThreads + static_cast<int>(threadIdx.x); }

  DeviceBlock block_;
  int blocks_;  // a power of 2
  int rank_;
  int shift_ = 0;  // threads = 2^shift
};

#endif

}  // namespace lossgrid
