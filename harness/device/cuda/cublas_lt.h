// SPDX-License-Identifier: Apache-2.0
// Functions of cuBLASLt for matrix products. The library is loaded at run time, because it has half
// a gigabyte that other commands should not load.
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

/// Returns the functions; the first call loads the library. Throws unsupported if the library is
/// not found.
const CublasLt& cublas_lt();

}  // namespace lossgrid
