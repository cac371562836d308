// SPDX-License-Identifier: Apache-2.0
// Whole-matrix operations on a GPU (gemm.h): products by cuBLASLt, which is loaded when the first
// one is made. Each returns when its result can be read.
#pragma once

#include "harness/device/gemm.h"

namespace lossgrid {

const KernelTable& cuda_kernels();

/// sum[k] += values[k] on `stream`; null, or what CUDA says is wrong.
const char* cuda_add(const float* values, std::int64_t count, float* sum, void* stream);

}  // namespace lossgrid
