// SPDX-License-Identifier: Apache-2.0
// Matrix products for the last layer of a model, by oneDNN, or by cuBLASLt on a GPU: float32
// results with float32 accumulation, of float32 or bf16 factors. Products of bf16 factors are made
// natively where the processor is faster at that than at converting them to float32; a measurement
// decides, once. All functions may be called from several threads; no rank communicates here.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "harness/core/dtype.h"

namespace lossgrid {

/// A factor op(M) of a product. M is stored row-major with `stride` elements from row to row.
struct Matrix {
  DType dtype;  // f32 or bf16
  const void* data;
  std::int64_t stride;
  bool transposed = false;  // op(M) = M^T
};

/// c [m, n] := alpha a b + (accumulate ? c : 0), with a [m, k], b [k, n]. c is float32, row-major,
/// `stride` elements from row to row. Factors are both f32, both bf16 (native), or f32 times bf16
/// (b is converted to float32 panel by panel in the workspace). Native products may read subnormal
/// numbers as zero. Equal calls with equally many threads give equal bits.
struct Gemm {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  Matrix a;
  Matrix b;
  float* c;
  std::int64_t stride;
  float alpha = 1;
  bool accumulate = false;
  void* stream = nullptr;  // Device::stream() of the memory
};

/// How the factors of products in bf16 are read.
enum class Bf16Gemm { native, converted };

/// What the measurement found, of products of the size that a chunk has, with the threads of the
/// thread that asked first.
struct Bf16GemmRates {
  bool native_supported = false;
  double native_flops = 0;     // per second; 0 where it is not supported
  double converted_flops = 0;  // conversion of b included
  Bf16Gemm faster() const {
    return native_supported && native_flops > converted_flops ? Bf16Gemm::native
                                                              : Bf16Gemm::converted;
  }
};

/// Measured at the first call, then the same for the life of the process.
const Bf16GemmRates& bf16_gemm_rates();

/// "oneDNN 2.6.3, avx512_core_bf16": version and the instructions that it uses here.
std::string gemm_library();

/// The kernels of a device that implementations call for whole matrices.
struct KernelTable {
  /// `workspace` holds at least gemm_workspace_floats of the same product; empty where that is 0.
  /// Throws internal on impossible arguments, unsupported where the processor has no native
  /// product.
  void (*gemm)(const Gemm& product, std::span<float> workspace);
  /// Floats of workspace for a product with factors of these dtypes.
  std::int64_t (*gemm_workspace_floats)(DType a, DType b, std::int64_t n, std::int64_t k);
  /// sum[k] += values[k], k < count, with the threads of products, or on `stream`.
  void (*add)(const float* values, std::int64_t count, float* sum, void* stream);
};

const KernelTable& cpu_kernels();

}  // namespace lossgrid
