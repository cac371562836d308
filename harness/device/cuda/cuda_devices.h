// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine, as far as this build can use them. Without CUDA, or without a driver,
// there is a reason instead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/device/device.h"

namespace lossgrid {

struct CudaDevices {
  std::string why_none;                   // empty: there are some
  std::vector<std::string> descriptions;  // one a device
};

/// Found at the first call, then the same.
const CudaDevices& cuda_devices();

/// Requires devices. One per rank: rank r has device r modulo their number, and a stream of its
/// own, in whose order its memory comes from the pool of the device and goes back to it.
std::unique_ptr<Device> make_cuda_device(int rank);

/// Their kernels (gemm.h); those of the processor in a build without CUDA.
const KernelTable& cuda_device_kernels();

/// Throws for a call that says what went wrong, but not in a status of CUDA: internal, or
/// device_lost where the GPU answers no other call either.
[[noreturn]] void throw_cuda_failure(const char* call, const char* said);

/// Bytes that may still be allocated on the device that rank 0 of this process has; 0 where there
/// is none.
std::int64_t free_cuda_bytes();

}  // namespace lossgrid
