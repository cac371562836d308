// SPDX-License-Identifier: Apache-2.0
// Whole-matrix operations on a GPU (gemm.h): products by cuBLASLt, which is loaded when the first
// one is made. Each returns when its work is launched.
#pragma once

#include "harness/device/gemm.h"

namespace lossgrid {

const KernelTable& cuda_kernels();

// On `stream`; null, or what CUDA says is wrong.

/// sum[k] += values[k], k < count.
const char* cuda_add(const float* values, std::int64_t count, float* sum, void* stream);
/// out[k] := the largest, or smallest, of `ranks` rows [count] of f32 or f64 that stand `stride`
/// elements apart, first to last; a NaN stays one.
const char* cuda_extrema(DType dtype, const void* rows, int ranks, std::int64_t stride,
                         std::int64_t count, bool largest, void* out, void* stream);
/// Ends in a sticky error.
const char* cuda_trap(void* stream);
/// As Device::fill.
const char* cuda_fill(void* to, std::uint16_t pattern, std::int64_t bytes, void* stream);

}  // namespace lossgrid
