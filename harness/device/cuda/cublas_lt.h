// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt that products need, from the library as it is found at run time: half a
// gigabyte that no other command should load.
#pragma once

#include <cublasLt.h>

namespace lossgrid {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
  decltype(&cublasLtMatmul) multiply;
};

/// Loaded at the first call; throws unsupported where the library is not found.
const CublasLt& cublas_lt();

}  // namespace lossgrid
