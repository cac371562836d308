// SPDX-License-Identifier: Apache-2.0
// DivergedRow: the numbers of a row of a student and of its teacher, and the contribution of a
// column to the divergence of both, in code of a kernel.
#pragma once

#include <algorithm>

#include "harness/problem/batch/row_terms.h"
#include "impls/kernels/cuda/row_kernels-inl.h"
#include "impls/kernels/row_gradient.h"
#include "impls/kernels/transformed_logit.h"

namespace lossgrid {

/// Rows of a student and of its teacher on a device, see DistilledRows.
struct CudaDistilledRows {
  CudaRows student;
  CudaRows teacher;
  const RowTransform* student_transforms;
  const RowTransform* teacher_transforms;
  Divergence divergence;
};

/// Returns z - shift; only a z of -inf becomes -inf.
LOSSGRID_KERNEL float finite_distance(float z, float shift) {
  constexpr float kLowest = -3.4028234663852886e38f;
  const float distance = z - shift;
  return distance < kLowest && z >= kLowest ? kLowest : distance;
}
LOSSGRID_KERNEL float finite_distance(double z, float shift) {
  return to_float(exact_distance_to_shift(z, shift));
}

/// Returns factor * log; 0 where the factor is 0.
LOSSGRID_KERNEL float product_or_zero(float factor, float log) {
  return factor == 0 ? 0.0f : factor * log;
}

/// Returns `weight` as a normal number, so that it has a logarithm.
LOSSGRID_KERNEL float normal_weight(double weight) {
  constexpr float kSmallestNormal = 1.17549435e-38f;
  return weight > kSmallestNormal ? static_cast<float>(weight) : kSmallestNormal;
}

/// Column of a row.
struct DivergedColumn {
  float student;  // distance, -inf where the column does not count
  float p;
  float q;
  float log_ratio;  // ln(p / q); NaN where both are 0
};

/// Column of a clamped divergence.
struct ClampedColumn {
  float q;       // 0 where the teacher has not sent the id
  float q_left;  // q, or 0 where ln p is not above the clamp
  float log;     // ln q - ln p, both clamped
};

/// Returns a logarithm that is at least `least`; NaN stays.
LOSSGRID_KERNEL float clamped_log(float log, float least) {
  return log < least ? least : log;
}

struct LogsByMixture {
  float of_p;  // ln(p / m)
  float of_q;  // ln(q / m)
};

/// Numbers of a row that do not depend on the column.
struct DivergedRow {
  EitherLogit student;
  EitherLogit teacher;
  Divergence::Topk topk;
  float student_shift;
  float teacher_shift;
  float of_p;            // 1 / sum of the student
  float of_q;            // 1 / sum of the teacher
  float log_sum_ratio;   // ln of the ratio of both sums
  float teacher_weight;  // b
  float student_weight;  // 1 - b
  float log_sum;         // ln of the sum of the student
  float log_prob_min;    // smallest logarithm of a clamped divergence
  // For ids that the teacher has not sent, with a tail or if ln q counts although q is 0:
  TailRow outside;  // q = ratio p, ln(p / q) = log_ratio, without a tail ln p more

  LOSSGRID_KERNEL DivergedRow(const CudaDistilledRows& rows, const RowSoftmax& softmax,
                              const RowSoftmax& of_teacher, std::int64_t r)
      : student{transform_of(rows.student_transforms, r)},
        teacher{transform_of(rows.teacher_transforms, r)},
        topk(rows.divergence.topk),
        student_shift(softmax.shift[r]),
        teacher_shift(of_teacher.shift[r]),
        of_p(1 / softmax.sum[r]),
        of_q(1 / of_teacher.sum[r]),
        log_sum_ratio(std::log(softmax.sum[r] / of_teacher.sum[r])),
        teacher_weight(normal_weight(rows.divergence.beta)),
        student_weight(normal_weight(1 - rows.divergence.beta)),
        log_sum(std::log(softmax.sum[r])),
        log_prob_min(static_cast<float>(rows.divergence.log_prob_min)) {
    outside.log_ratio = -static_cast<float>(Divergence::kLogOutside);
    if (rows.divergence.has_tail()) outside = softmax.tail[r];
  }

  LOSSGRID_KERNEL static RowTransform transform_of(const RowTransform* transforms, std::int64_t r) {
    return transforms == nullptr ? RowTransform{} : transforms[r];
  }

  template <typename S, typename T>
  LOSSGRID_KERNEL DivergedColumn column(S x, T y) const {
    const float of_teacher = finite_distance(teacher.z(operand(y)), teacher_shift);
    const bool is_outside = of_teacher == -infinity();
    const float of_student = is_outside && topk == Divergence::Topk::renormalized
                                 ? -infinity()
                                 : finite_distance(student.z(operand(x)), student_shift);
    DivergedColumn column{of_student, exp_of(of_student) * of_p, exp_of(of_teacher) * of_q,
                          (of_student - of_teacher) - log_sum_ratio};
    if (is_outside && topk == Divergence::Topk::tail) {
      column.q = column.p * outside.ratio;
      column.log_ratio = outside.log_ratio;
    } else if (is_outside && topk == Divergence::Topk::zero_outside) {
      column.log_ratio = (of_student - log_sum) + outside.log_ratio;
    }
    return column;
  }

  template <typename T>
  LOSSGRID_KERNEL ClampedColumn clamped_column(float of_student, T y) const {
    const float of_teacher = finite_distance(teacher.z(operand(y)), teacher_shift);
    const float log_p = of_student - log_sum;
    const float log_q = clamped_log(of_teacher, log_prob_min);
    const float q = of_teacher == -infinity() ? 0.0f : exp_of(log_q);
    return {q, log_p <= log_prob_min ? 0.0f : q, log_q - clamped_log(log_p, log_prob_min)};
  }

  LOSSGRID_KERNEL LogsByMixture logs_by_mixture(float log_ratio) const {
    const bool p_is_larger = log_ratio >= 0;
    const float fall = p_is_larger ? -log_ratio : log_ratio;  // ln(smaller / larger)
    const float of_larger = p_is_larger ? student_weight : teacher_weight;
    const float of_smaller = p_is_larger ? teacher_weight : student_weight;
    const float below_one = of_smaller * std::expm1(fall);
    const float log_of_larger =
        -(below_one > -0.5f ? std::log1p(below_one)
                            : std::log(of_smaller * exp_of(fall) + of_larger));
    const float log_of_smaller = fall + log_of_larger;
    return p_is_larger ? LogsByMixture{log_of_larger, log_of_smaller}
                       : LogsByMixture{log_of_smaller, log_of_larger};
  }
};

}  // namespace lossgrid
