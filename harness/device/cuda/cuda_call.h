// SPDX-License-Identifier: Apache-2.0
// check_cuda: conversion of CUDA's status codes to errors of this program.
#pragma once

#include <atomic>

#include <cuda_runtime.h>

#include "harness/core/error.h"

namespace lossgrid {

/// Returns true for sticky errors: after them every CUDA call of the process fails. These are the
/// codes documented with "the process must be terminated and relaunched" (CUDA Runtime API,
/// cudaError), destroyed contexts, and uncorrectable errors of memory or NVLink. Codes without a
/// name in CUDA 12.0 are listed by number.
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

/// Returns the error code of a status that is not cudaSuccess.
inline ErrorCode error_code(cudaError_t status) {
  if (is_sticky(status)) return ErrorCode::device_lost;
  return status == cudaErrorMemoryAllocation ? ErrorCode::not_enough_memory : ErrorCode::internal;
}

/// True after a call of this process has returned a sticky status. From then on nothing calls CUDA,
/// destructors included.
inline std::atomic<bool>& cuda_is_lost() {
  static std::atomic<bool> lost{false};
  return lost;
}

/// Throws device_lost, not_enough_memory or internal, with the text of CUDA, unless the status is
/// cudaSuccess. `what` names the call.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const ErrorCode code = error_code(status);
  if (code == ErrorCode::device_lost) {
    cuda_is_lost() = true;
  } else {
    cudaGetLastError();  // else the next launch reports this status
  }
  throw Error(
      code, fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace lossgrid
