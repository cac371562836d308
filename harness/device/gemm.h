// SPDX-License-Identifier: Apache-2.0
// Matrix products of the lm_head, by oneDNN, or by cuBLASLt on a GPU: float32 results with float32
// accumulation, of float32 or bf16 factors. On the processor, products of bf16 factors are native
// if that is faster than converting them to float32, by a measurement made once. All functions may
// be called from several threads; no rank communicates here.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "harness/core/dtype.h"

namespace lossgrid {

/// Factor op(M) of a product. M is stored row-major with `stride` elements from row to row.
struct Matrix {
  DType dtype;  // f32 or bf16
  const void* data;
  std::int64_t stride;
  bool transposed = false;  // op(M) = M^T
};

/// Product c [m, n] := alpha a b + (accumulate ? c : 0), with a [m, k], b [k, n]. c is float32,
/// row-major, `stride` elements from row to row. Factors are both f32, both bf16 (native), or f32
/// times bf16 (b is converted to float32 panel by panel in the workspace). Native products may read
/// subnormal numbers as zero. Equal calls with equally many threads give equal bits.
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
  // Result in place of c, with the same stride, on GPUs: every sum is rounded once. Not with
  // `accumulate`.
  bf16* rounded = nullptr;

  /// Returns the number of multiplications and additions.
  std::int64_t flops() const { return 2 * m * n * k; }
};

/// Throws internal for a product that both rounds and accumulates.
void require_right_result(const Gemm& product);

/// Ways to multiply bf16 factors.
enum class Bf16Gemm { native, converted };

/// Measured rates of products of the size of a chunk, with the threads of the first caller.
struct Bf16GemmRates {
  bool native_supported = false;
  double native_flops = 0;     // FLOPs per second; 0 if not supported
  double converted_flops = 0;  // FLOPs per second, conversion of b included
  Bf16Gemm faster() const {
    return native_supported && native_flops > converted_flops ? Bf16Gemm::native
                                                              : Bf16Gemm::converted;
  }
};

/// Returns the rates, which the first call of the process measures.
const Bf16GemmRates& bf16_gemm_rates();

/// Returns the version and the instructions in use on this processor: "oneDNN 2.6.3,
/// avx512_core_bf16".
std::string gemm_library();

/// Kernels of a device for whole matrices, called by implementations. Products of Device::kernels()
/// count their FLOPs (device_work.h).
struct KernelTable {
  /// Computes a product. `workspace` holds at least gemm_workspace_floats floats for the product,
  /// none if that is 0. Throws internal on impossible arguments, unsupported if the processor has
  /// no native product.
  void (*gemm)(const Gemm& product, std::span<float> workspace);
  /// Returns the floats of workspace for a product with factors of these dtypes.
  std::int64_t (*gemm_workspace_floats)(DType a, DType b, std::int64_t n, std::int64_t k);
  /// Computes sum[k] += values[k], k < count, with the threads of matrix products, or on `stream`.
  void (*add)(const float* values, std::int64_t count, float* sum, void* stream);
};

/// Returns the kernels of the processor, which count nothing.
const KernelTable& cpu_kernels();

}  // namespace lossgrid
