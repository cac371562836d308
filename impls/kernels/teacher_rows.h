// SPDX-License-Identifier: Apache-2.0
// Items (items.h) on the statistics of a teacher's rows: the merge of pairs (shift, sum) over TP,
// and the divergence from its two sums. Plain data only: nvcc compiles this header.
#pragma once

#include <algorithm>

#include "harness/device/kernel/portable.h"
#include "harness/problem/batch/row_terms.h"
#include "impls/kernels/row_gradient.h"

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

/// Makes the tail of a row, then sets the shift 0 and the sum 1 of the teacher, whose logits are ln
/// q. p' is the sum of p over unsent ids (ids that the teacher has not sent), t the smallest tail,
/// and q' = 1 - sum q, at least t. If p' >= t, every unsent id has ln(p' / q') and q' / p'. Else
/// the p' of the formulas is t and has no gradient: unsent ids count as 0 in the teacher's sum and
/// as -p' in the student's sum, which lowers R by p', as required by d (p ln p) / dp = ln p + 1.
struct MakeTail {
  Divergence divergence;
  const float* shift;  // shift of the student
  const float* sum;
  const float* outside_shift;  // shift of the student over unsent ids
  const float* outside_sum;
  float* teacher_shift;
  float* teacher_sum;
  TailRow* out;

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    constexpr auto kSmallest = static_cast<float>(Divergence::kSmallestTail);
    constexpr float kLargestLog = -1e-7f;  // gives the smallest tail, 1 - e^x
    const float log_smallest = std::log(kSmallest);
    const bool is_empty = outside_sum[r] == 0;
    const float log_p =
        is_empty ? -infinity() : (outside_shift[r] - shift[r]) + std::log(outside_sum[r] / sum[r]);
    const float log_sent = teacher_shift[r] + std::log(teacher_sum[r]);
    const bool sends_nothing = teacher_sum[r] == 0;
    const float sent = sends_nothing ? 0.0f : std::exp(log_sent);
    const float q = sends_nothing            ? 1.0f
                    : log_sent > kLargestLog ? kSmallest
                                             : -std::expm1(log_sent);
    teacher_shift[r] = 0;
    teacher_sum[r] = 1;
    if (log_p >= log_smallest) {
      const float log_ratio = log_p - std::log(q);
      out[r] = {log_ratio, std::exp(-log_ratio), sent + q, 0, 0};
      return;
    }
    const float log_ratio = log_smallest - std::log(q);
    const float p = std::exp(log_p);
    out[r] = {-1, 0, sent, -q * log_ratio, kSmallest * log_ratio + p};
    if (divergence.kind != Divergence::Kind::jsd) return;
    const auto beta = static_cast<float>(divergence.beta);
    const float log_m = std::log(beta * q + (1 - beta) * kSmallest);
    out[r] = {0, 0, sent, q * (std::log(q) - log_m), kSmallest * (log_smallest - log_m)};
  }
};

/// Sets `out` [rows] to a number.
struct SetRows {
  float value;
  float* out;

  LOSSGRID_KERNEL void operator()(std::int64_t r) const { out[r] = value; }
};

/// Writes D of a row: the teacher's sum, the student's sum, or their mixture with b and 1 - b;
/// `tail` may be null.
struct WriteDivergence {
  Divergence divergence;
  const float* sum_of_teacher;
  const float* sum_of_student;
  const TailRow* tail;
  float* out;

  LOSSGRID_KERNEL void operator()(std::int64_t r) const {
    const auto beta = static_cast<float>(divergence.beta);
    float of_teacher = sum_of_teacher[r];
    float of_student = sum_of_student[r];
    if (tail != nullptr) {
      of_teacher += tail[r].of_teacher;
      of_student += tail[r].of_student;
    }
    out[r] = divergence.kind == Divergence::Kind::forward ? of_teacher
             : divergence.kind == Divergence::Kind::reverse
                 ? of_student
                 : beta * of_teacher + (1 - beta) * of_student;
  }
};

}  // namespace lossgrid
