// SPDX-License-Identifier: Apache-2.0
// LogitsRows and RowStatistics (rows.h) in the form for kernels of the cuda backends. Plain data
// only: nvcc compiles this header.
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"

namespace lossgrid {

/// Rows of a vocab shard on a device, see LogitsRows.
struct CudaRows {
  DType dtype;
  const void* data;
  std::int64_t rows;
  std::int64_t width;           // elements from row to row
  std::int64_t columns;         // valid columns
  std::int64_t first_id;        // vocab id of the first column
  const std::int32_t* targets;  // [rows]; -1: the row predicts nothing
  const std::uint64_t* kept;    // [rows, words] kept columns; null: all columns
};

/// Statistics [rows] each; `weighted` and `min` are both null or both set.
struct CudaRowStatistics {
  float* shift;
  float* sum;
  float* target;
  float* weighted;
  float* min;
};

/// Statistics including those for a mean and about predictions. Each pair is null or set; the last
/// pair is set only with the pair before.
struct CudaTermStatistics {
  CudaRowStatistics softmax;
  float* total;
  float* finite;
  float* squares;
  float* beaten;
};

}  // namespace lossgrid
