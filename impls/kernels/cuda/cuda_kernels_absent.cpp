// SPDX-License-Identifier: Apache-2.0
// Builds without CUDA.
#include "impls/kernels/cuda/cuda_hidden.h"
#include "impls/kernels/cuda/cuda_rows.h"

namespace lossgrid {

const CudaRowKernels* cuda_row_kernels() {
  return nullptr;
}

const CudaHiddenKernels* cuda_hidden_kernels() {
  return nullptr;
}

}  // namespace lossgrid
