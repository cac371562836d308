// SPDX-License-Identifier: Apache-2.0
// The gradient of a loss by the logits z of one row, as a combination of known vectors. With p the
// probabilities, y the target, V the size of the vocabulary and F the number of logits that are not
// -inf, the numbers of a row (harness/problem/batch/row_terms.h) have the gradients
//   d ln p_y / dz_v = [v = y] - p_v          d H / dz_v = - p_v (ln p_v + H)
//   d L / dz_v      = p_v                    d M / dz_v = 1 / V - (F / V) p_v,  0 where z_v is -inf
// so that with g, h, l, m = d loss / d (ln p_y, H, L, M)
//   dz_v = a ([v = y] - p_v) + p_v (b + c ln p_v) + d,
//   a = g,   b = l - h H - m F / V,   c = -h,   d = m / V, or 0 where z_v is -inf.
// Plain data only: nvcc compiles this header.
#pragma once

#include <cstdint>

#include "harness/device/kernel/portable.h"
#include "harness/problem/batch/row_terms.h"

namespace lossgrid {

/// Tail: one more id that stands for all ids that a teacher has not sent (Divergence::Topk::tail),
/// of which each unsent id has a part: with p', q' of both tails, every unsent id has ln(p / q) =
/// ln(p' / q'). A p' below its smallest value is replaced by that value and has no gradient: then
/// the numbers of unsent ids leave p' out of the sums, and its contribution to D is separate.
struct TailRow {
  float log_ratio = 0;   // ln(p / q) of every unsent id
  float ratio = 0;       // q / p
  float mass = 1;        // sum of q
  float of_teacher = 0;  // contribution to DivergenceSums::of_teacher
  float of_student = 0;
};

/// Merged statistics of rows that the gradient needs, [rows] each.
struct RowSoftmax {
  const float* shift;
  const float* sum;                 // s = sum of exp(z - shift)
  const float* weighted = nullptr;  // sum of exp(z - shift) (z - shift), with d loss / d entropy
  const float* finite = nullptr;    // F, with d loss / d mean_logprob
  // z_y - shift, if the log-probability of a target of -inf is constant: then a = 0 for such a row.
  const float* filtered = nullptr;
  // With d loss / d divergence (divergence_rows.h): shift and sum of the teacher, shift and sum of
  // the student on the teacher's support if the divergence is on the support, and the merged
  // DivergenceSums::of_student.
  const float* teacher_shift = nullptr;
  const float* teacher_sum = nullptr;
  const float* support_shift = nullptr;
  const float* support_sum = nullptr;
  const float* divergence_of_student = nullptr;
  const TailRow* tail = nullptr;  // tails of a divergence with a tail

  /// Returns the statistics from row `begin` on.
  constexpr RowSoftmax from(std::int64_t begin) const {
    const auto at = [begin](const float* column) {
      return column == nullptr ? nullptr : column + begin;
    };
    return {at(shift),
            at(sum),
            at(weighted),
            at(finite),
            at(filtered),
            at(teacher_shift),
            at(teacher_sum),
            at(support_shift),
            at(support_sum),
            at(divergence_of_student),
            tail == nullptr ? nullptr : tail + begin};
  }
  /// The following functions return the statistics of the distributions that a divergence compares.
  constexpr RowSoftmax of_teacher() const { return {teacher_shift, teacher_sum}; }
  constexpr RowSoftmax of_divergence(const Divergence& divergence) const {
    RowSoftmax student{shift, sum};
    if (divergence.on_support()) student = {support_shift, support_sum};
    student.tail = tail;
    return student;
  }
};

/// d loss / d number of every row, [rows] each; null if the loss does not depend on it.
struct RowGradients {
  const float* logprob;
  ByGradientTerm<const float*> terms = {};  // a divergence excludes others (divergence_rows.h)

  constexpr bool logprob_alone() const {
    for (const float* column : terms) {
      if (column != nullptr) return false;
    }
    return true;
  }
  /// True if the loss does not depend on row r, so that its gradient is 0 for any statistics.
  LOSSGRID_KERNEL bool is_zero(std::int64_t r) const {
    if (logprob[r] != 0) return false;
    for (const float* column : terms.of) {
      if (column != nullptr && column[r] != 0) return false;
    }
    return true;
  }
  /// Returns the gradients from row `begin` on.
  constexpr RowGradients from(std::int64_t begin) const {
    RowGradients from{logprob + begin};
    for (int k = 0; k < kGradientTerms; ++k) {
      if (terms.of[k] != nullptr) from.terms.of[k] = terms.of[k] + begin;
    }
    return from;
  }
};

/// Coefficients a, b, c and d.
struct RowCoefficients {
  float a = 0;
  float b = 0;
  float c = 0;
  float d = 0;

  /// Returns dz of the target's column, whose logit is z and whose probability is p, without a
  /// difference of large numbers if p is near 1.
  template <typename Float>
  LOSSGRID_KERNEL Float of_target(Float z, Float p, Float log_p) const {
    const Float of_label = a * (1 - p);
    if (z == -infinity()) return of_label;
    return of_label + (p == 0 ? 0 : p * (b + c * log_p)) + d;
  }
  /// Returns dz of another column.
  template <typename Float>
  LOSSGRID_KERNEL Float of_other(Float z, Float p, Float log_p) const {
    if (z == -infinity()) return 0;
    return (p == 0 ? 0 : p * (b - a + c * log_p)) + d;
  }
};

/// Returns the coefficients of row r; `vocab` = V.
LOSSGRID_KERNEL RowCoefficients row_coefficients(const RowSoftmax& softmax,
                                                 const RowGradients& gradients, std::int64_t vocab,
                                                 std::int64_t r) {
  RowCoefficients row;
  const bool is_filtered = softmax.filtered != nullptr && softmax.filtered[r] == -infinity();
  row.a = is_filtered ? 0 : gradients.logprob[r];
  const ByGradientTerm<const float*>& by = gradients.terms;
  if (by[RowTerm::logsumexp] != nullptr) row.b = by[RowTerm::logsumexp][r];
  if (by[RowTerm::entropy] != nullptr) {
    const float h = by[RowTerm::entropy][r];
    row.b -= h * (std::log(softmax.sum[r]) - softmax.weighted[r] / softmax.sum[r]);
    row.c = -h;
  }
  if (by[RowTerm::mean_logprob] != nullptr) {
    row.d = by[RowTerm::mean_logprob][r] / static_cast<float>(vocab);
    row.b -= row.d * softmax.finite[r];
  }
  return row;
}

}  // namespace lossgrid
