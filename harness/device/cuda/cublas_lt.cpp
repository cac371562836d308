// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda/cublas_lt.h"

#include <dlfcn.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw Error(ErrorCode::unsupported, fmt::format("cuBLASLt has no {}", name));
  }
}

CublasLt load() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(ErrorCode::unsupported, dlerror());
  CublasLt lt{};
  find(library, "cublasLtCreate", lt.create);
  find(library, "cublasLtGetStatusString", lt.status_string);
  find(library, "cublasLtMatmulDescCreate", lt.create_product);
  find(library, "cublasLtMatmulDescDestroy", lt.destroy_product);
  find(library, "cublasLtMatmulDescSetAttribute", lt.set_product);
  find(library, "cublasLtMatrixLayoutCreate", lt.create_layout);
  find(library, "cublasLtMatrixLayoutDestroy", lt.destroy_layout);
  find(library, "cublasLtMatmulPreferenceCreate", lt.create_preference);
  find(library, "cublasLtMatmulPreferenceDestroy", lt.destroy_preference);
  find(library, "cublasLtMatmulPreferenceSetAttribute", lt.set_preference);
  find(library, "cublasLtMatmulAlgoGetHeuristic", lt.find_algorithm);
  find(library, "cublasLtMatmul", lt.multiply);
  return lt;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt loaded = load();
  return loaded;
}

}  // namespace lossgrid
