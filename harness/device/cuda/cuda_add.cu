// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda/device_block.cuh"

namespace lossgrid {
namespace {

struct AddKernel {
  const float* values;
  std::int64_t count;
  float* sum;

  __device__ void operator()(DeviceBlock& block) const {
    block.run([&](int thread) {
      const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
      for (std::int64_t k = block.index() * kBlockThreads + thread; k < count; k += stride) {
        sum[k] += values[k];
      }
    });
  }
};

}  // namespace

const char* cuda_add(const float* values, std::int64_t count, float* sum, void* stream) {
  constexpr std::int64_t kMostBlocks = 4096;
  const std::int64_t needed = (count + kBlockThreads - 1) / kBlockThreads;
  DeviceLauncher launch(stream);
  launch(AddKernel{values, count, sum}, needed < kMostBlocks ? needed : kMostBlocks, 0);
  return launch.status() == cudaSuccess ? nullptr : cudaGetErrorString(launch.status());
}

}  // namespace lossgrid
