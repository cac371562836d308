// SPDX-License-Identifier: Apache-2.0
// The float64 truth of a row's divergence from a teacher (row_terms.h), its gradient by the
// student's logits z, and their error bounds. With p and q the two distributions, g = d loss / d D,
// R = sum p (ln p - ln r), r = q (reverse, mixed) or m = b q + (1 - b) p (jsd):
//   forward  dz_v = g (p_v - q_v)
//   reverse  dz_v = g p_v (ln p_v - ln q_v - R)
//   jsd      dz_v = g (1 - b) p_v (ln(p_v / m_v) - R)
//   mixed    dz_v = b of the first and 1 - b of the second
// and 0 where z_v is -inf: there is no logit to change. Over a row they add up to 0, but where a
// forward D is infinite: ids without a probability of the student then leave their q_v out.
//
// A float32 implementation has p_v with a relative error of at most D_v, as in bounds.h, and ln p_v
// with an absolute one; q_v and ln q_v with D'_v of the teacher's logits:
//   D_v = u32 (4 (8 + |z_v - m| + |ln s|) + d) + r + e_v + sum p e
// with m and s of the ids that the distribution is over, and r = 4 u32 |m + ln s| of the student
// where it is allowed (bounds.h): with float64 logits, which may be read as float32, and with a
// declared log-sum-exp in float32. A sum over w_v l_v, with w one of the distributions and l a
// difference of logarithms, has the errors of its summands and of its chain of d additions:
//   sum w (D_w |l| + error of l + u32 4 |l|) + u32 d sum w |l| + sum min(w, 2 f) |l|
// and a gradient those of its factors, with one rounding for each product. f is the smallest normal
// float32: a probability below 2 f may count as 0 (vanishing.h), whatever it is multiplied by.
//
// The error of ln p - ln q is at most D + D'. That of ln(p / m) is less, since m is made of p and
// q: with x the share b q / m of q in m it is
//   x (D + D') + (1 - x) o + u32 4 (2 + |ln m|),  o = u32 4 (2 + |z - m| + |ln s|)
// where o bounds the difference of the errors of p and of ln p, which come from one distance and
// one sum. In the value of jsd even the first of these cancels: the derivative by an error that p
// and ln p share is (1 - b) p ln(p / m), as that of m = b q + (1 - b) p takes the rest back. So the
// errors of logarithms count as o + u32 4 (2 + |ln m|) there. ln(q / m) is alike.
//
// A clamped divergence (row_terms.h) has q' = exp(max(ln q, c)) and D = sum q' (max(ln q, c) -
// max(ln p, c)) over the ids that were sent, R = sum q' over those of them with ln p > c, and
//   clamped  dz_v = g (R p_v - q'_v), q' = 0 where it is not in R
// ln q is given: its error is o. Where |ln p - c| is within the error of ln p, either side is
// right: q' counts as an error of R and of its element.
//
// A tail (row_terms.h) is one more summand of D: p' of the ids that were not sent, q' = 1 - sum q
// of those that were, each at least t. ln p' has the error of the p that it is the sum of, q' that
// of the sum of q: 4 u32 + sum q (4 u32 (8 + |ln q|) + u32 d), whatever is left of 1. Where p' >=
// t, an id that was not sent has ln(p'/q'), and q_v = p_v q'/p'. Below, the tail has no gradient:
// with w the weight of the sum of p in D, R is less by w p', an id that was not sent has a ln(p /
// q) of -1, or ln(p / m) of 0, and sum q in the place of 1 is that of the ids that were sent.
//
// A row has no D, which is NaN, if one of the two has no distribution. A reverse D is infinite if
// the student has a probability where the teacher has none, and has no gradient then.
#pragma once

#include <array>
#include <span>

#include "harness/loss/enclosure.h"
#include "harness/problem/batch/row_terms.h"

namespace lossgrid {

/// An error bound that grows with the longest serial add chain d: fixed + d per_add.
struct ChainBound {
  double fixed = 0;
  double per_add = 0;

  double at(int serial_adds) const { return fixed + serial_adds * per_add; }
  void add(double factor, const ChainBound& other) {
    fixed += factor * other.fixed;
    per_add += factor * other.per_add;
  }
};

/// One of the two distributions: maximum and sum of exponentials of its logits, and the error that
/// all logarithms of probabilities share.
struct Softmax {
  double max = 0;
  double sum = 1;
  double shared_error = 0;  // r + sum p e

  /// False if a logit is NaN or inf, or all are -inf.
  bool is_distribution() const;

  double log_p(double logit) const;
  /// Returns D of a logit with error `error`.
  ChainBound error(double logit, double logit_error) const;
  /// Returns o of a logit.
  double own_error(double logit) const;
};

/// Lengths of add chains for which the part of R that may be found on either side is kept.
inline constexpr std::array<int, 3> kStraddleAdds{64, 4096, 1 << 20};

/// The one more id of a divergence with a tail, which stands for all that were not sent.
struct TailTruth {
  double log_p = 0;  // of these ids together; -inf if they have no probability
  double log_q = 0;  // at least the smallest one
  double log_m = 0;
  double mass = 1;  // sum of q; of the ids that were sent alone, if the tail has no gradient
  ChainBound p_error;
  ChainBound q_error;
  ChainBound mass_error;
  ChainBound p_by_m_error;

  /// True if the student's tail is not below the smallest one: then it has a gradient.
  bool has_gradient() const;
  /// True if a computation may find otherwise.
  bool straddles(int serial_adds) const;
  /// Returns ln(p / q), p being at least the smallest one.
  double log_ratio() const;
};

struct DivergenceTruth {
  Divergence divergence;
  Softmax p;              // of the student, on the support if the divergence is on it
  Softmax q;              // of the teacher
  double value = 0;       // D; NaN if p or q is none
  double of_student = 0;  // R
  ChainBound value_error;
  ChainBound of_student_error;         // without what straddles
  std::array<double, 3> straddling{};  // part of R whose ln p may be on either side of the clamp
  TailTruth tail;

  /// Returns the bound of the error of R.
  double error_of_student(int serial_adds) const;
  /// True if D has a gradient by the logits.
  bool has_gradient() const;
  /// True if the gradient by the logits adds up to 0.
  bool gradient_adds_up() const;
};

/// Logits of a row, [V] or of a shard, and the bounds of their errors.
struct DistilledLogits {
  std::span<const double> student;
  std::span<const double> teacher;
  std::span<const double> student_errors;
  std::span<const double> teacher_errors;
};

/// Returns the truth of a whole row. `allows_offset`: r counts.
DivergenceTruth divergence_truth(const Divergence& divergence, const DistilledLogits& logits,
                                 bool allows_offset);

/// One element of the gradient by z, with the bounds of errors of the computation and of the
/// interval of d loss / d D.
struct DivergenceColumn {
  double want = 0;
  double roundings = 0;
  double floor = 0;  // of numbers that vanish (bounds.h)
  double objective = 0;

  double computation() const { return floor + roundings; }
};

/// Returns the element of a row that has a gradient. `gradient`: d loss / d D.
DivergenceColumn divergence_column(const DivergenceTruth& truth, const Enclosure& gradient,
                                   int serial_adds, double student, double teacher,
                                   double student_error, double teacher_error);

}  // namespace lossgrid
