// SPDX-License-Identifier: Apache-2.0
// DeviceBlock: a block of threads of a kernel on a GPU (portable.h). DeviceLauncher: launches.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "harness/device/cuda/launch_shape.h"
#include "harness/device/cuda/shared_memory.h"
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
    __shared__ T of_warps[32];
    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;
    value = reduce_warp(value, merge);
    __syncthreads();  // of_warps may still be read by the reduction before
    if (warp == 0) of_warps[lane] = none;
    __syncthreads();
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    if (warp == 0) {
      const T whole = reduce_warp(of_warps[lane], merge);
      if (lane == 0) of_warps[0] = whole;
    }
    __syncthreads();
    return of_warps[0];
  }

 private:
  template <typename T, typename Merge>
  __device__ static T reduce_warp(T value, Merge&& merge) {
    for (int offset = 16; offset > 0; offset /= 2) {
      value = merge(value, from_lane_below(value, offset));
    }
    return value;
  }

  /// Returns the value of the lane `offset` further on, word by word.
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

template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads) run_kernel(const __grid_constant__ Kernel kernel) {
  DeviceBlock block;
  kernel(block);
}

/// Launches kernels on `stream` and keeps the first error.
class DeviceLauncher {
 public:
  explicit DeviceLauncher(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  template <typename Kernel>
  void operator()(const Kernel& kernel, std::int64_t blocks, std::size_t shared_bytes) {
    const LaunchShape shape = launch_shape(blocks, shared_bytes);
    if (shape.step == LaunchStep::nothing || status_ != cudaSuccess) return;
    if (shape.step == LaunchStep::is_impossible) {
      status_ = cudaErrorInvalidConfiguration;
      return;
    }
    if (shape.step == LaunchStep::allow_shared) {
      status_ = cudaFuncSetAttribute(
          run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
      if (status_ != cudaSuccess) {
        cudaGetLastError();  // else the next launch would be blamed for it
        return;
      }
    }
    run_kernel<Kernel><<<shape.blocks, kBlockThreads, shared_bytes, stream_>>>(kernel);
    status_ = cudaGetLastError();
  }

  /// Returns the bytes of dynamic shared memory with which two blocks fit on an SM.
  std::int64_t room_of_block() {
    int device = 0;
    int of_sm = 0;
    int of_block = 0;
    keep(cudaGetDevice(&device));
    keep(cudaDeviceGetAttribute(&of_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
    keep(cudaDeviceGetAttribute(&of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    return room_beside_another(of_sm, of_block);
  }

  /// Returns CUDA's text of the first error; null if there was none.
  const char* error() const {
    return status_ == cudaSuccess ? nullptr : cudaGetErrorString(status_);
  }

 private:
  void keep(cudaError_t status) {
    if (status_ == cudaSuccess) status_ = status;
  }

  cudaStream_t stream_;
  cudaError_t status_ = cudaSuccess;
};

}  // namespace lossgrid
