// SPDX-License-Identifier: Apache-2.0
// LogitsRows and RowStatistics (rows.h) as the kernels of the cuda backends take them. Plain data
// only: nvcc compiles this header.
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
  const std::uint64_t* kept;    // [rows, words] kept columns; null: all
};

/// [rows] each; `weighted` and `min` both null or both not.
struct CudaRowStatistics {
  float* shift;
  float* sum;
  float* target;
  float* weighted;
  float* min;
};

/// With those of a mean and about predictions, pairs that are null or not; the last pair only with
/// the one before.
struct CudaTermStatistics {
  CudaRowStatistics softmax;
  float* total;
  float* finite;
  float* squares;
  float* beaten;
};

}  // namespace lossgrid
