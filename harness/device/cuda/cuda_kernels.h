// SPDX-License-Identifier: Apache-2.0
// Operations of the device layer on a GPU: matrix products (gemm.h) by cuBLASLt, which the first
// product loads, and operations on plain arrays. All functions return when their work is launched.
#pragma once

#include "harness/device/gemm.h"

namespace lossgrid {

const KernelTable& cuda_kernels();

// The following functions run on `stream` and return null or CUDA's error text.

/// sum[k] += values[k], k < count.
const char* cuda_add(const float* values, std::int64_t count, float* sum, void* stream);
/// out[k] := the maximum, or minimum, of element k over `ranks` rows [count] of f32 or f64,
/// `stride` elements apart; NaN if any of the elements is NaN.
const char* cuda_extrema(DType dtype, const void* rows, int ranks, std::int64_t stride,
                         std::int64_t count, bool largest, void* out, void* stream);
/// Causes a sticky error, for tests of lost devices.
const char* cuda_trap(void* stream);
/// Keeps the stream busy for at least `ns` nanoseconds.
const char* cuda_gate(std::int64_t ns, void* stream);
/// Fills memory like Device::fill.
const char* cuda_fill(void* to, std::uint16_t pattern, std::int64_t bytes, void* stream);

}  // namespace lossgrid
