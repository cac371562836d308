// SPDX-License-Identifier: Apache-2.0
// GPUs of this machine that this build can use, or the reason why it can use no GPU.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/skip_reason.h"
#include "harness/device/device.h"

namespace lossgrid {

struct CudaDevices {
  std::optional<SkipReason> no_gpu;       // nullopt: there is at least one
  std::vector<std::string> descriptions;  // one line for each device
  bool all_are_sm_90 = false;
};

/// Returns the GPUs, which the first call looks up.
const CudaDevices& cuda_devices();

/// Makes the device of a rank: GPU `rank` modulo the number of GPUs, with its own stream. Memory is
/// allocated from the GPU's pool and returned to it in the order of that stream. Requires a GPU.
std::unique_ptr<Device> make_cuda_device(int rank);

/// Returns the products of GPUs (gemm.h); in a build without CUDA, the products of the processor.
const KernelTable& cuda_device_kernels();

/// Throws for a failed `call` with an error text instead of a status: internal, or device_lost if
/// other calls of the GPU fail too.
[[noreturn]] void throw_cuda_failure(const char* call, const char* error);

/// Returns the bytes that may still be allocated on the GPU of rank 0 of this process; 0 without
/// GPUs.
std::int64_t free_cuda_bytes();

}  // namespace lossgrid
