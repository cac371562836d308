// SPDX-License-Identifier: Apache-2.0
// Fast comparison of columns of one row of a gradient with the truth, in float64 for all
// instruction sets (Google Highway): the formulas of GradientBound and BiasSums for columns other
// than the target's, eight at a time. It only selects suspects: columns that may be wrong, or worse
// than the worst column so far, for Check::add.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/verify/truth/bounds.h"

namespace lossgrid {

/// Columns of a row except the target's column. REQUIRES: !bound.is_unbounded().
struct GradientColumns {
  const GradientBound& bound;
  double max = 0;           // largest logit of the row
  double sum = 1;           // sum exp(x - max)
  double grad_logprob = 0;  // d loss / d logprob
  std::span<const double> logits;
  const void* got = nullptr;  // [logits.size()]
  DType dtype = DType::f32;
};

/// Sums over columns, see BiasSums and GradientFindings.
struct GradientColumnSums {
  double values = 0;
  double bounds = 0;  // sum of bounds of rounding and computation
  double computation_times_truth = 0;
  double out_truth = 0;
  double rounded_truth = 0;
  double shared = 0;
  double truth_squared = 0;
};

/// Adds the columns to `sums` and appends suspects: the indices of every column whose error exceeds
/// `allowed` times its bound or is NaN, as in memory that was never written (buffer.h), and of the
/// columns in the same vector.
void compare_columns(const GradientColumns& columns, double allowed, GradientColumnSums& sums,
                     std::vector<std::int32_t>& suspects);

}  // namespace lossgrid
