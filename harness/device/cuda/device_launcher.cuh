// SPDX-License-Identifier: Apache-2.0
// DeviceLauncher: launches of kernels (portable.h) on a stream of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "harness/device/cuda/device_block.cuh"
#include "harness/device/cuda/device_cluster.cuh"
#include "harness/device/cuda/launch_shape.h"
#include "harness/device/cuda/shared_memory.h"
#include "harness/device/kernel/rows_on_chip.h"

namespace lossgrid {

template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads) run_kernel(const __grid_constant__ Kernel kernel) {
  DeviceBlock block;
  kernel(block);
}

template <typename Kernel>
__global__ void __launch_bounds__(kBlockThreads)
    run_in_cluster(const __grid_constant__ Kernel kernel) {
#ifdef _CG_HAS_CLUSTER_GROUP
  DeviceCluster cluster;
  kernel(cluster);
#endif
}

/// Launches kernels on `stream` and keeps the first error.
class DeviceLauncher {
 public:
  explicit DeviceLauncher(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  template <typename Kernel>
  void operator()(const Kernel& kernel, std::int64_t blocks, std::size_t shared_bytes) {
    launch(run_kernel<Kernel>, kernel, launch_shape(blocks, shared_bytes), 1);
  }

  /// Launches `clusters` clusters of `blocks` blocks each.
  template <typename Kernel>
  void in_clusters(const Kernel& kernel, std::int64_t clusters, int blocks,
                   std::size_t shared_bytes) {
    launch(run_in_cluster<Kernel>, kernel, launch_shape(clusters * blocks, shared_bytes), blocks);
  }

  /// Returns the blocks that a cluster may have; 1 if the GPU has no clusters.
  int most_cluster_blocks() {
    return attribute(cudaDevAttrClusterLaunch) == 0 ? 1 : kMostClusterBlocks;
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

  /// Returns CUDA's text of the first error; null without an error.
  const char* error() const {
    return status_ == cudaSuccess ? nullptr : cudaGetErrorString(status_);
  }

 private:
  template <typename Kernel>
  void launch(void (*run)(Kernel), const Kernel& kernel, const LaunchShape& shape,
              int cluster_blocks) {
    if (shape.step == LaunchStep::nothing || status_ != cudaSuccess) return;
    if (shape.step == LaunchStep::is_impossible) {
      status_ = cudaErrorInvalidConfiguration;
      return;
    }
    if (shape.step == LaunchStep::allow_shared) allow_shared(run);
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(cluster_blocks), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = shape.blocks;
    config.blockDim = kBlockThreads;
    config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
    config.stream = stream_;
    config.attrs = &cluster;
    config.numAttrs = cluster_blocks > 1 ? 1 : 0;
    if (status_ == cudaSuccess) keep(cudaLaunchKernelEx(&config, run, kernel));
    if (status_ != cudaSuccess) cudaGetLastError();  // else the next launch reports this status
  }
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
  /// kernel with different sizes, and no rank may lower the limit that another rank needs.
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
