// SPDX-License-Identifier: Apache-2.0
// Summands of divergences and their gradient for a block of columns of a student and of its
// teacher, compiled once for every instruction set. Blocks hold distances to the shifts
// (distance_blocks-inl.h). With s, t the sums of student and teacher,
//   ln(p / q) = (student's distance - teacher's) - ln(s / t),
// which is 0 for equal rows. The mixture m = b q + (1 - b) p is never computed:
//   ln(m / p) = ln((1 - b) + b q / p) = ln(1 + b (q / p - 1))  for p >= q,
//   ln(m / q) = ln(b + (1 - b) p / q) = ln(1 + (1 - b) (p / q - 1))  else,
// the argument of which lies in [min(b, 1 - b), 1]. Near 1 the second form has errors in proportion
// to the logarithm, and so have divergences of nearly equal rows; far from 1 the first form loses
// nothing for any b. The other logarithm follows with ln(p / q).
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
  // For ids that the teacher has not sent: ln(p / q) = own_log ln p + outside.log_ratio, q = ratio
  // p.
  float log_sum;       // ln s
  float own_log;       // 1 or 0
  TailRow outside;     // with a tail, or with a logarithm of q = 0
  float log_prob_min;  // smallest logarithm of a clamped divergence

  DivergedRow(const Divergence& divergence, float student_sum, float teacher_sum,
              const TailRow* tail)
      : of_p(1 / student_sum),
        of_q(1 / teacher_sum),
        log_sum_ratio(std::log(student_sum / teacher_sum)),
        teacher_weight(normal(divergence.beta)),
        student_weight(normal(1 - divergence.beta)),
        log_sum(std::log(student_sum)),
        own_log(divergence.has_tail() ? 0.0f : 1.0f),
        log_prob_min(static_cast<float>(divergence.log_prob_min)) {
    outside.log_ratio = -static_cast<float>(Divergence::kLogOutside);
    if (divergence.has_tail()) outside = *tail;
  }

 private:
  /// Returns `weight` as a normal number, so that it has a logarithm.
  static float normal(double weight) {
    return std::max(static_cast<float>(weight), std::numeric_limits<float>::min());
  }
};

/// Returns a logarithm that is at least `least`; NaN stays.
HWY_INLINE FloatVector clamped_log(FloatVector log, FloatVector least) {
  return hn::IfThenElse(hn::Lt(log, least), least, log);
}

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

/// Sets the numbers of ids that the teacher has not sent.
HWY_INLINE void set_outside(const DivergedRow& row, FloatVector student, FloatVector teacher,
                            Probabilities& x) {
  const Floats d;
  const auto is_outside = hn::Eq(teacher, minus_infinity());
  const FloatVector log_p = hn::Sub(student, hn::Set(d, row.log_sum));
  const FloatVector own = row.own_log == 0 ? hn::Zero(d) : log_p;
  x.log_ratio =
      hn::IfThenElse(is_outside, hn::Add(own, hn::Set(d, row.outside.log_ratio)), x.log_ratio);
  x.q = hn::IfThenElse(is_outside, hn::Mul(x.p, hn::Set(d, row.outside.ratio)), x.q);
}

/// Numbers of a clamped divergence at an id.
struct ClampedColumn {
  FloatVector q;       // 0 where the teacher has not sent the id
  FloatVector q_left;  // q, or 0 where ln p is not above the clamp
  FloatVector log;     // ln q - ln p, both clamped
  FloatVector p;
};

HWY_INLINE ClampedColumn clamped_column(const DivergedRow& row, FloatVector student,
                                        FloatVector teacher) {
  const Floats d;
  const FloatVector least = hn::Set(d, row.log_prob_min);
  const FloatVector log_p = hn::Sub(student, hn::Set(d, row.log_sum));
  const FloatVector log_q = clamped_log(teacher, least);
  const auto is_outside = hn::Eq(teacher, minus_infinity());
  const FloatVector q = hn::IfThenZeroElse(is_outside, exp_of_distance(log_q));
  return {q, hn::IfThenZeroElse(hn::Le(log_p, least), q), hn::Sub(log_q, clamped_log(log_p, least)),
          hn::Mul(exp_of_distance(student), hn::Set(d, row.of_p))};
}

/// Returns factor * log; 0 where the factor is 0.
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

/// Sums of a block; a sum that the divergence does not have is 0.
struct BlockDivergence {
  float of_teacher;
  float of_student;
};

/// `kOutside`: ids that the teacher has not sent contribute.
template <Divergence::Kind kKind, bool kOutside>
HWY_INLINE BlockDivergence divergence_of_block(const DivergedRow& row, const TermBlock& student,
                                               const TermBlock& teacher) {
  const Floats d;
  FloatVector of_teacher[kVectors];
  FloatVector of_student[kVectors];
  each_vector([&](auto k) HWY_ATTR { of_teacher[k] = of_student[k] = hn::Zero(d); });
  for_each_vector(student, [&](FloatVector distance, std::size_t k, std::int64_t at) HWY_ATTR {
    const FloatVector of_teacher_row = hn::Load(d, teacher.z + at);
    Probabilities x = probabilities_of(row, distance, of_teacher_row);
    if constexpr (kOutside) set_outside(row, distance, of_teacher_row, x);
    if constexpr (kKind == Divergence::Kind::forward) {
      of_teacher[k] = hn::Add(of_teacher[k], product_or_zero(x.q, hn::Neg(x.log_ratio)));
    } else if constexpr (kKind == Divergence::Kind::reverse) {
      of_student[k] = hn::Add(of_student[k], product_or_zero(x.p, x.log_ratio));
    } else if constexpr (kKind == Divergence::Kind::mixed) {
      of_teacher[k] = hn::Add(of_teacher[k], product_or_zero(x.q, hn::Neg(x.log_ratio)));
      of_student[k] = hn::Add(of_student[k], product_or_zero(x.p, x.log_ratio));
    } else {
      const LogsByMixture logs = logs_by_mixture(row, x.log_ratio);
      of_teacher[k] = hn::Add(of_teacher[k], product_or_zero(x.q, logs.of_q));
      of_student[k] = hn::Add(of_student[k], product_or_zero(x.p, logs.of_p));
    }
  });
  return {tree_sum(of_teacher), tree_sum(of_student)};
}

HWY_INLINE BlockDivergence clamped_divergence_of_block(const DivergedRow& row,
                                                       const TermBlock& student,
                                                       const TermBlock& teacher) {
  const Floats d;
  FloatVector of_teacher[kVectors];
  FloatVector left[kVectors];
  each_vector([&](auto k) HWY_ATTR { of_teacher[k] = left[k] = hn::Zero(d); });
  for_each_vector(student, [&](FloatVector distance, std::size_t k, std::int64_t at) HWY_ATTR {
    const ClampedColumn x = clamped_column(row, distance, hn::Load(d, teacher.z + at));
    of_teacher[k] = hn::Add(of_teacher[k], product_or_zero(x.q, x.log));
    left[k] = hn::Add(left[k], x.q_left);
  });
  return {tree_sum(of_teacher), tree_sum(left)};
}

/// Factors of a row's gradient.
struct DivergenceGradient {
  float scale;       // d loss / d D times the factor of the transform, for jsd times 1 - b
  float of_student;  // R
};

/// Returns the sum of q times p.
template <bool kOutside>
HWY_INLINE FloatVector mass_of_p(const DivergedRow& row, const Probabilities& x) {
  return kOutside ? hn::Mul(x.p, hn::Set(Floats(), row.outside.mass)) : x.p;
}

/// Stores a gradient by z times dz / dx where z is not -inf, else 0.
template <bool kSlope>
HWY_INLINE void store_gradient(FloatVector by_z, FloatVector distance, std::int64_t at,
                               TermBlock& student) {
  const Floats d;
  if constexpr (kSlope) by_z = hn::Mul(by_z, hn::Load(d, student.slope + at));
  hn::Store(hn::IfThenZeroElse(hn::Eq(distance, minus_infinity()), by_z), d, student.z + at);
}

/// student := the gradient; slopes apply only with kSlope.
template <Divergence::Kind kKind, bool kOutside, bool kSlope>
HWY_INLINE void divergence_gradient_of_block(const DivergedRow& row,
                                             const DivergenceGradient& gradient,
                                             const TermBlock& teacher, TermBlock& student) {
  const Floats d;
  const FloatVector scale = hn::Set(d, gradient.scale);
  const FloatVector mean = hn::Set(d, gradient.of_student);
  for_each_vector(student, [&](FloatVector distance, std::size_t, std::int64_t at) HWY_ATTR {
    const FloatVector of_teacher_row = hn::Load(d, teacher.z + at);
    Probabilities x = probabilities_of(row, distance, of_teacher_row);
    if constexpr (kOutside) set_outside(row, distance, of_teacher_row, x);
    FloatVector by_z;
    if constexpr (kKind == Divergence::Kind::forward) {
      by_z = hn::Sub(mass_of_p<kOutside>(row, x), x.q);
    } else if constexpr (kKind == Divergence::Kind::mixed) {
      const FloatVector of_reverse = product_or_zero(x.p, hn::Sub(x.log_ratio, mean));
      const FloatVector of_forward = hn::Sub(mass_of_p<kOutside>(row, x), x.q);
      by_z = hn::Add(hn::Mul(hn::Set(d, row.teacher_weight), of_forward),
                     hn::Mul(hn::Set(d, row.student_weight), of_reverse));
    } else if constexpr (kKind == Divergence::Kind::reverse) {
      by_z = product_or_zero(x.p, hn::Sub(x.log_ratio, mean));
    } else {
      by_z = product_or_zero(x.p, hn::Sub(logs_by_mixture(row, x.log_ratio).of_p, mean));
    }
    store_gradient<kSlope>(hn::Mul(by_z, scale), distance, at, student);
  });
}

template <bool kSlope>
HWY_INLINE void clamped_gradient_of_block(const DivergedRow& row,
                                          const DivergenceGradient& gradient,
                                          const TermBlock& teacher, TermBlock& student) {
  const Floats d;
  const FloatVector scale = hn::Set(d, gradient.scale);
  const FloatVector left = hn::Set(d, gradient.of_student);
  for_each_vector(student, [&](FloatVector distance, std::size_t, std::int64_t at) HWY_ATTR {
    const ClampedColumn x = clamped_column(row, distance, hn::Load(d, teacher.z + at));
    const FloatVector by_z = hn::Sub(hn::Mul(left, x.p), x.q_left);
    store_gradient<kSlope>(hn::Mul(by_z, scale), distance, at, student);
  });
}

/// Sets columns to -inf in which the teacher has no probability or, with kKeepsOutside, in which it
/// has a probability.
template <bool kKeepsOutside = false>
HWY_INLINE void keep_support(const TermBlock& teacher, TermBlock& student) {
  const Floats d;
  for_each_vector(student, [&](FloatVector z, std::size_t, std::int64_t at) HWY_ATTR {
    const FloatVector nothing = minus_infinity();
    const auto is_outside = hn::Eq(hn::Load(d, teacher.z + at), nothing);
    hn::Store(kKeepsOutside ? hn::IfThenElse(is_outside, z, nothing)
                            : hn::IfThenElse(is_outside, nothing, z),
              d, student.z + at);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#endif
