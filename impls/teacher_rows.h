// SPDX-License-Identifier: Apache-2.0
// Items (items.h) on the statistics of a teacher's rows: the merge of pairs (shift, sum) over TP,
// and the divergence from its two sums. Plain data only: nvcc compiles this header.
#pragma once

#include <algorithm>

#include "harness/device/kernel/portable.h"
#include "harness/problem/batch/row_terms.h"

namespace lossgrid {

/// Merges `pairs` pairs of columns (shift, sum) of all ranks, [ranks, pairs, 2, rows]:
/// m = max m_r, s = sum exp(m_r - m) s_r. Item pair * rows + r is row r of a pair.
struct MergePairs {
  const float* received;
  std::int64_t ranks;
  std::int64_t pairs;
  std::int64_t rows;
  float* out;  // [pairs, 2, rows]

  LOSSGRID_KERNEL void operator()(std::int64_t item) const {
    const std::int64_t first = item / rows * 2 * rows + item % rows;
    const std::int64_t of_rank = pairs * 2 * rows;
    float shift = received[first];
    for (std::int64_t k = 1; k < ranks; ++k) {
      shift = std::max(shift, received[k * of_rank + first]);
    }
    float sum = 0;
    for (std::int64_t k = 0; k < ranks; ++k) {
      const float own = received[k * of_rank + first + rows];
      if (own == 0) continue;  // the shift of an empty shard is -inf
      sum += std::exp(received[k * of_rank + first] - shift) * own;
    }
    out[first] = shift;
    out[first + rows] = sum;
  }
};

/// Writes D of a row: the sum of the teacher, or of the student, or b and 1 - b of them.
struct WriteDivergence {
  Divergence divergence;
  const float* of_teacher;
  const float* of_student;
  float* out;

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    const auto beta = static_cast<float>(divergence.beta);
    out[r] = divergence.kind == Divergence::Kind::forward ? of_teacher[r]
             : divergence.kind == Divergence::Kind::reverse
                 ? of_student[r]
                 : beta * of_teacher[r] + (1 - beta) * of_student[r];
  }
};

}  // namespace lossgrid
