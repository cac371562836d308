// SPDX-License-Identifier: Apache-2.0
// Functions of this folder for builds without CUDA.
#include "harness/core/error.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/cuda/cuda_timing.h"
#include "harness/device/gemm.h"

namespace lossgrid {

const CudaDevices& cuda_devices() {
  static const CudaDevices none{
      .no_gpu = SkipReason{"this build has no CUDA (configure with -DLOSSGRID_CUDA=ON)"},
      .descriptions = {}};
  return none;
}

std::unique_ptr<Device> make_cuda_device(int /*rank*/) {
  throw Error(ErrorCode::internal, "no CUDA in this build");
}

const KernelTable& cuda_device_kernels() {
  return cpu_kernels();
}

void throw_cuda_failure(const char* call, const char* error) {
  throw Error(ErrorCode::internal, fmt::format("{}: {}", call, error));
}

std::int64_t free_cuda_bytes() {
  return 0;
}

std::unique_ptr<DeviceTimer> make_cuda_timer(Device& /*device*/) {
  throw Error(ErrorCode::internal, "no CUDA in this build");
}

std::int64_t cuda_l2_bytes() {
  return 0;
}

std::string cuda_device_uuid() {
  throw Error(ErrorCode::internal, "no CUDA in this build");
}

}  // namespace lossgrid
