// SPDX-License-Identifier: Apache-2.0
// CUDA's status codes as errors of this program.
#pragma once

#include <cuda_runtime.h>

#include "harness/core/error.h"

namespace lossgrid {

/// Throws internal, or not_enough_memory, with the text of CUDA. `what` names the call.
inline void check_cuda(cudaError_t status, const char* what,
                       std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::not_enough_memory : ErrorCode::internal;
  throw Error(
      code, fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)),
      where);
}

}  // namespace lossgrid
