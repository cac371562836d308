// SPDX-License-Identifier: Apache-2.0
// Summands of divergences and their gradient for a block of columns of a student and of its
// teacher, compiled once for every instruction set. Blocks hold distances to the shifts
// (distance_blocks-inl.h). With s, t the sums of student and teacher,
//   ln(p / q) = (student's distance - teacher's) - ln(s / t),
// which is 0 for equal rows. The mixture m = b q + (1 - b) p is never computed:
//   ln(m / p) = ln((1 - b) + b q / p) = ln(1 + b (q / p - 1))  for p >= q,
//   ln(m / q) = ln(b + (1 - b) p / q) = ln(1 + (1 - b) (p / q - 1))  else,
// the argument of which lies in [min(b, 1 - b), 1]. Near 1 the second form has errors in proportion
// to the logarithm, so that nearly equal rows do; far from 1 the first one loses nothing for any b.
// The other logarithm follows with ln(p / q).
#if defined(LOSSGRID_DIVERGENCE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOSSGRID_DIVERGENCE_BLOCKS_INL_H_
#undef LOSSGRID_DIVERGENCE_BLOCKS_INL_H_
#else
#define LOSSGRID_DIVERGENCE_BLOCKS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "impls/kernels/cpu/distance_blocks-inl.h"
#include "impls/kernels/divergence_rows.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {

/// Numbers of a row that do not depend on the column.
struct DivergedRow {
  float of_p;            // 1 / sum of the student
  float of_q;            // 1 / sum of the teacher
  float log_sum_ratio;   // ln(s / t)
  float teacher_weight;  // b
  float student_weight;  // 1 - b

  DivergedRow(const Divergence& divergence, float student_sum, float teacher_sum)
      : of_p(1 / student_sum),
        of_q(1 / teacher_sum),
        log_sum_ratio(std::log(student_sum / teacher_sum)),
        teacher_weight(normal(divergence.beta)),
        student_weight(normal(1 - divergence.beta)) {}

 private:
  /// Returns a number that has a logarithm.
  static float normal(double weight) {
    return std::max(static_cast<float>(weight), std::numeric_limits<float>::min());
  }
};

struct Probabilities {
  FloatVector p;
  FloatVector q;
  FloatVector log_ratio;  // ln(p / q); NaN where both are 0
};

HWY_INLINE Probabilities probabilities_of(const DivergedRow& row, FloatVector student,
                                          FloatVector teacher) {
  const Floats d;
  return {hn::Mul(exp_of_distance(student), hn::Set(d, row.of_p)),
          hn::Mul(exp_of_distance(teacher), hn::Set(d, row.of_q)),
          hn::Sub(hn::Sub(student, teacher), hn::Set(d, row.log_sum_ratio))};
}

/// Returns factor * log, 0 where the factor is 0.
HWY_INLINE FloatVector product_or_zero(FloatVector factor, FloatVector log) {
  return hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(Floats())), hn::Mul(factor, log));
}

struct LogsByMixture {
  FloatVector of_p;  // ln(p / m)
  FloatVector of_q;  // ln(q / m)
};

/// Returns ln(larger + smaller e^fall) for weights that add up to 1 and fall <= 0.
HWY_INLINE FloatVector log_of_mixture(FloatVector larger, FloatVector smaller, FloatVector fall) {
  const Floats d;
  const FloatVector one = hn::Set(d, 1.0f);
  const FloatVector below_one = hn::Mul(smaller, hn::Expm1(d, fall));
  const FloatVector from_one = hn::Add(one, below_one);
  const auto is_near = hn::Gt(below_one, hn::Set(d, -0.5f));
  const FloatVector argument =
      hn::IfThenElse(is_near, from_one, hn::MulAdd(smaller, exp_of_distance(fall), larger));
  const FloatVector log = hn::Log(d, argument);
  // y = 1 + x is rounded: ln(1 + x) = ln(y) x / (y - 1), or x where y is 1 (D. Goldberg, "What
  // every computer scientist should know about floating-point arithmetic", 1991, theorem 4).
  const auto is_one = hn::And(is_near, hn::Eq(from_one, one));
  const FloatVector rounded = hn::Sub(from_one, hn::IfThenElse(is_one, hn::Zero(d), one));
  const FloatVector near = hn::Mul(log, hn::Div(below_one, rounded));
  return hn::IfThenElse(is_one, below_one, hn::IfThenElse(is_near, near, log));
}

HWY_INLINE LogsByMixture logs_by_mixture(const DivergedRow& row, FloatVector log_ratio) {
  const Floats d;
  const FloatVector b = hn::Set(d, row.teacher_weight);
  const FloatVector rest = hn::Set(d, row.student_weight);
  const auto p_is_larger = hn::Ge(log_ratio, hn::Zero(d));
  const FloatVector fall = hn::Neg(hn::Abs(log_ratio));  // ln(smaller / larger)
  const FloatVector of_larger = hn::Neg(log_of_mixture(hn::IfThenElse(p_is_larger, rest, b),
                                                       hn::IfThenElse(p_is_larger, b, rest), fall));
  const FloatVector of_smaller = hn::Add(fall, of_larger);
  return {hn::IfThenElse(p_is_larger, of_larger, of_smaller),
          hn::IfThenElse(p_is_larger, of_smaller, of_larger)};
}

/// Sums of a block; those that a divergence has none of are 0.
struct BlockDivergence {
  float of_teacher;
  float of_student;
};

template <Divergence::Kind kKind>
HWY_INLINE BlockDivergence divergence_of_block(const DivergedRow& row, const TermBlock& student,
                                               const TermBlock& teacher) {
  const Floats d;
  FloatVector of_teacher[kVectors];
  FloatVector of_student[kVectors];
  for (std::size_t k = 0; k < kVectors; ++k) of_teacher[k] = of_student[k] = hn::Zero(d);
  for_each_vector(student, [&](FloatVector distance, std::size_t k, std::int64_t at) HWY_ATTR {
    const Probabilities x = probabilities_of(row, distance, hn::Load(d, teacher.z + at));
    if constexpr (kKind == Divergence::Kind::forward) {
      of_teacher[k] = hn::Add(of_teacher[k], product_or_zero(x.q, hn::Neg(x.log_ratio)));
    } else if constexpr (kKind == Divergence::Kind::reverse) {
      of_student[k] = hn::Add(of_student[k], product_or_zero(x.p, x.log_ratio));
    } else {
      const LogsByMixture logs = logs_by_mixture(row, x.log_ratio);
      of_teacher[k] = hn::Add(of_teacher[k], product_or_zero(x.q, logs.of_q));
      of_student[k] = hn::Add(of_student[k], product_or_zero(x.p, logs.of_p));
    }
  });
  return {tree_sum(of_teacher), tree_sum(of_student)};
}

/// Factors of a row's gradient.
struct DivergenceGradient {
  float scale;       // d loss / d D times the factor of the transform, for jsd times 1 - b
  float of_student;  // R
};

/// student := the gradient; slopes count with kSlope alone.
template <Divergence::Kind kKind, bool kSlope>
HWY_INLINE void divergence_gradient_of_block(const DivergedRow& row,
                                             const DivergenceGradient& gradient,
                                             const TermBlock& teacher, TermBlock& student) {
  const Floats d;
  const FloatVector scale = hn::Set(d, gradient.scale);
  const FloatVector mean = hn::Set(d, gradient.of_student);
  for_each_vector(student, [&](FloatVector distance, std::size_t, std::int64_t at) HWY_ATTR {
    const Probabilities x = probabilities_of(row, distance, hn::Load(d, teacher.z + at));
    FloatVector by_z;
    if constexpr (kKind == Divergence::Kind::forward) {
      by_z = hn::Sub(x.p, x.q);
    } else if constexpr (kKind == Divergence::Kind::reverse) {
      by_z = product_or_zero(x.p, hn::Sub(x.log_ratio, mean));
    } else {
      by_z = product_or_zero(x.p, hn::Sub(logs_by_mixture(row, x.log_ratio).of_p, mean));
    }
    by_z = hn::Mul(by_z, scale);
    if constexpr (kSlope) by_z = hn::Mul(by_z, hn::Load(d, student.slope + at));
    hn::Store(hn::IfThenZeroElse(hn::Eq(distance, minus_infinity()), by_z), d, student.z + at);
  });
}

/// Makes columns -inf in which the teacher has no probability.
HWY_INLINE void keep_support(const TermBlock& teacher, TermBlock& student) {
  const Floats d;
  for_each_vector(student, [&](FloatVector z, std::size_t, std::int64_t at) HWY_ATTR {
    const FloatVector nothing = minus_infinity();
    const auto is_outside = hn::Eq(hn::Load(d, teacher.z + at), nothing);
    hn::Store(hn::IfThenElse(is_outside, nothing, z), d, student.z + at);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
