// SPDX-License-Identifier: Apache-2.0
// CUDA's status codes as errors of this program.
#pragma once

#include <atomic>

#include <cuda_runtime.h>

#include "harness/core/error.h"

namespace lossgrid {

/// Whether every later call of the process fails too. CUDA Runtime API, cudaError: those of which
/// it says that "the process must be terminated and relaunched"; and what it does not say of, but
/// leaves nothing to go on with: a context that is gone, and memory or links of the GPU that lost
/// data. By number where CUDA 12.0 has no name.
inline bool is_sticky(cudaError_t status) {
  switch (static_cast<int>(status)) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case 226:  // cudaErrorContained
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case 721:  // cudaErrorTensorMemoryLeak
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

/// Of what is no success.
inline ErrorCode error_code(cudaError_t status) {
  if (is_sticky(status)) return ErrorCode::device_lost;
  return status == cudaErrorMemoryAllocation ? ErrorCode::not_enough_memory : ErrorCode::internal;
}

/// Whether a call of this process has seen a sticky status: nobody calls CUDA any more, and what
/// tidies up leaves the GPU alone.
inline std::atomic<bool>& cuda_is_lost() {
  static std::atomic<bool> lost{false};
  return lost;
}

/// Throws device_lost, not_enough_memory or internal, with the text of CUDA. `what` names the call.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const ErrorCode code = error_code(status);
  if (code == ErrorCode::device_lost) {
    cuda_is_lost() = true;
  } else {
    cudaGetLastError();  // else the next launch would be blamed for it
  }
  throw Error(
      code, fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace lossgrid
