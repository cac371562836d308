// SPDX-License-Identifier: Apache-2.0
// Row kernels of the cuda backends: statistics, gradient and both at once, one block of threads a
// row. Plain data only: nvcc compiles this header. Statistics as RowStatistics has them
// (softmax_rows.h), their shift being the largest logit; everything float32, whatever the logits.
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"

namespace lossgrid {

/// Rows of a vocab shard on a device; as LogitsRows.
struct CudaRows {
  DType dtype;
  const void* data;
  std::int64_t rows;
  std::int64_t width;           // elements from row to row
  std::int64_t columns;         // that count
  std::int64_t first_id;        // vocab id of the first column
  const std::int32_t* targets;  // [rows]; -1: the row predicts nothing
};

/// [rows] each; `weighted` and `min` both null or both not.
struct CudaRowStatistics {
  float* shift;
  float* sum;
  float* target;
  float* weighted;
  float* min;
};

/// Each returns when its work is launched on the stream of a device: null, or what CUDA says is
/// wrong.
struct CudaRowKernels {
  const char* (*statistics)(void* stream, const CudaRows&, const CudaRowStatistics&);
  const char* (*gradient)(void* stream, const CudaRows&, const float* shift, const float* sum,
                          const float* grad, void* out);
  /// Statistics (not all of them) and gradient of one row after the other, of which as much as fits
  /// stays on chip in between. `out` may be the logits.
  const char* (*sweep)(void* stream, const CudaRows&, const float* grad, const CudaRowStatistics&,
                       void* out);
};

/// On a GPU; null in a build without CUDA.
const CudaRowKernels* cuda_row_kernels();
/// The same code on the processor.
const CudaRowKernels& emulated_row_kernels();

}  // namespace lossgrid
