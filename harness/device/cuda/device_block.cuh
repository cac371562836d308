// SPDX-License-Identifier: Apache-2.0
// DeviceBlock: a block of threads of a kernel on a GPU (portable.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "harness/device/kernel/block_reduce.h"
#include "harness/device/kernel/portable.h"

namespace lossgrid {

class DeviceBlock {
 public:
  __device__ DeviceBlock() {}

  __device__ std::int64_t index() const { return blockIdx.x; }
  __device__ int threads() const { return kBlockThreads; }
  __device__ std::byte* shared() const {
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<std::byte*>(memory);
  }

  /// Returns the place of vector v of a row in the shared memory of its thread's block.
  __device__ std::int64_t place_on_chip(std::int64_t v) const { return v; }

  template <typename F>
  __device__ auto each(F&& f) const {
    return f(static_cast<int>(threadIdx.x));
  }
  template <typename F>
  __device__ void run(F&& f) const {
    f(static_cast<int>(threadIdx.x));
  }
  template <typename T>
  __device__ const T& of(const T& value, int /*thread*/) const {
    return value;
  }
  template <typename F>
  __device__ void one(F&& f) const {
    if (threadIdx.x == 0) f();
  }
  __device__ void sync() const { __syncthreads(); }

  template <typename T, typename Merge>
  __device__ T reduce(T value, const T& none, Merge&& merge) const {
    return reduce_by_warps(*this, value, none, merge);
  }

  // Members for reduce_by_warps:
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  template <typename T>
  __device__ T* of_warps() const {
    __shared__ T values[kWarpThreads];
    return values;
  }
  /// Returns the value of the lane `offset` lanes further, word by word.
  template <typename T>
  __device__ static T from_lane_below(const T& value, int offset) {
    static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
    union Words {
      __device__ Words() {}
      T value;
      std::uint32_t words[sizeof(T) / sizeof(std::uint32_t)];
    } own, other;
    own.value = value;
    for (std::size_t k = 0; k < sizeof(T) / sizeof(std::uint32_t); ++k) {
      other.words[k] = __shfl_down_sync(0xffffffffu, own.words[k], offset);
    }
    return other.value;
  }
};

}  // namespace lossgrid
