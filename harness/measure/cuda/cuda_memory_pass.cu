// SPDX-License-Identifier: Apache-2.0
// Passes over memory on a GPU.
#include "harness/device/cuda/device_launcher.cuh"
#include "harness/measure/cuda/memory_pass-inl.h"

namespace lossgrid {

const char* cuda_memory_pass(void* stream, const CudaMemoryPass& pass) {
  if (pass.variant == MemoryVariant::library) {
    const cudaError_t status =
        cudaMemcpyAsync(pass.to, pass.from, static_cast<std::size_t>(pass.bytes),
                        cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
    return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
  }
  DeviceLauncher launcher(stream);
  launch_memory_pass(launcher, pass);
  return launcher.error();
}

}  // namespace lossgrid
