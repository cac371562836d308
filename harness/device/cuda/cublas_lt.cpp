// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda/cublas_lt.h"

#include <fmt/format.h>

#include "harness/core/process/shared_library.h"

namespace lossgrid {
namespace {

CublasLt load() {
  const SharedLibrary library(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR));
  CublasLt lt{};
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtGetStatusString", lt.status_string);
  library.find("cublasLtMatmulDescCreate", lt.create_product);
  library.find("cublasLtMatmulDescDestroy", lt.destroy_product);
  library.find("cublasLtMatmulDescSetAttribute", lt.set_product);
  library.find("cublasLtMatrixLayoutCreate", lt.create_layout);
  library.find("cublasLtMatrixLayoutDestroy", lt.destroy_layout);
  library.find("cublasLtMatmulPreferenceCreate", lt.create_preference);
  library.find("cublasLtMatmulPreferenceDestroy", lt.destroy_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.find_algorithm);
  library.find("cublasLtMatmul", lt.multiply);
  return lt;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt loaded = load();
  return loaded;
}

}  // namespace lossgrid
