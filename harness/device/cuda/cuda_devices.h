// SPDX-License-Identifier: Apache-2.0
// GPUs of this machine that this build can use, or the reason for which there are none.
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
  std::vector<std::string> descriptions;  // one a device
  bool all_are_sm_90 = false;
};

/// Returns the GPUs, which are looked for at the first call.
const CudaDevices& cuda_devices();

/// Makes the device of a rank: GPU `rank` modulo their number, with a stream of its own. Its memory
/// is allocated from and returned to the GPU's pool in the order of that stream. Requires a GPU.
std::unique_ptr<Device> make_cuda_device(int rank);

/// Returns the products of GPUs (gemm.h); those of the processor in a build without CUDA.
const KernelTable& cuda_device_kernels();

/// Throws for a failed `call` whose error is a text and not a status: internal, or device_lost if
/// other calls of the GPU fail too.
[[noreturn]] void throw_cuda_failure(const char* call, const char* error);

/// Returns the bytes that may still be allocated on the GPU of rank 0 of this process; 0 without
/// GPUs.
std::int64_t free_cuda_bytes();

}  // namespace lossgrid
