// SPDX-License-Identifier: Apache-2.0
// Items (items.h) that move rows between ranks' order and the order of the pack (zigzag un-split
// and split): scatter, gather, scale. Plain data only: nvcc compiles this header.
#pragma once

#include <cstdint>

#include "harness/device/kernel/portable.h"
#include "harness/problem/batch/row_terms.h"

namespace lossgrid {

/// Scatters. Item rank * rows + k is row k of the rank in every column:
/// to[column][positions[rank * stride + k]] := from[rank, column, k].
struct ScatterRow {
  static constexpr int kMostColumns = 1 + kRowTerms;

  const float* from;  // [ranks, columns, rows]
  std::int64_t rows;  // rows of a rank
  int columns;
  const std::int32_t* positions;
  std::int64_t stride;
  float* to[kMostColumns];

  LOSSGRID_KERNEL void operator()(std::int64_t item) const {
    const std::int64_t rank = item / rows;
    const std::int64_t k = item % rows;
    const std::int32_t position = positions[rank * stride + k];
    const float* of_rank = from + rank * columns * rows;
    for (int c = 0; c < columns; ++c) to[c][position] = of_rank[c * rows + k];
  }
};

/// Gathers: to[k] := from[positions[k] - first].
struct GatherRow {
  const float* from;
  const std::int32_t* positions;
  std::int32_t first;
  float* to;

  LOSSGRID_KERNEL void operator()(std::int64_t k) const { to[k] = from[positions[k] - first]; }
};

/// Scales: to[k] := factor from[k].
struct ScaleRow {
  float factor;
  const float* from;
  float* to;

  LOSSGRID_KERNEL void operator()(std::int64_t k) const { to[k] = factor * from[k]; }
};

}  // namespace lossgrid
