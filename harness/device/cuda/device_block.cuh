// SPDX-License-Identifier: Apache-2.0
// DeviceBlock: a block of threads of a kernel on a GPU (portable.h). DeviceLauncher: launches.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "harness/device/cuda/launch_shape.h"
#include "harness/device/cuda/shared_memory.h"
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

  // For reduce_by_warps:
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  template <typename T>
  __device__ T* of_warps() const {
    __shared__ T values[kWarpThreads];
    return values;
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
      allow_shared(run_kernel<Kernel>);
      if (status_ != cudaSuccess) {
        cudaGetLastError();  // else the next launch would be blamed for it
        return;
      }
    }
    run_kernel<Kernel><<<shape.blocks, kBlockThreads, shared_bytes, stream_>>>(kernel);
    status_ = cudaGetLastError();
  }

  /// Returns the number of blocks of a kernel without shared memory that run at once.
  template <typename Kernel>
  std::int64_t blocks_at_once(const Kernel& /*kernel*/) {
    int of_sm = 0;
    keep(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, run_kernel<Kernel>, kBlockThreads,
                                                       0));
    return std::int64_t{of_sm} * attribute(cudaDevAttrMultiProcessorCount);
  }

  /// Returns the bytes of dynamic shared memory with which two blocks fit on an SM.
  std::int64_t room_of_block() {
    return room_beside_another(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor),
                               attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  }

  /// Returns CUDA's text of the first error; null if there was none.
  const char* error() const {
    return status_ == cudaSuccess ? nullptr : cudaGetErrorString(status_);
  }

 private:
  void keep(cudaError_t status) {
    if (status_ == cudaSuccess) status_ = status;
  }
  int attribute(cudaDeviceAttr which) {
    int device = 0;
    int value = 0;
    keep(cudaGetDevice(&device));
    keep(cudaDeviceGetAttribute(&value, which, device));
    return value;
  }
  /// Allows a kernel all shared memory that a block can have: ranks on threads launch the same
  /// kernel with different sizes, and none may take back what another one needs.
  template <typename F>
  void allow_shared(F* kernel) {
    cudaFuncAttributes own;
    keep(cudaFuncGetAttributes(&own, kernel));
    const int most = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (status_ != cudaSuccess) return;
    keep(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              most - static_cast<int>(own.sharedSizeBytes)));
  }

  cudaStream_t stream_;
  cudaError_t status_ = cudaSuccess;
};

}  // namespace lossgrid
