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
//   sum w (D_w |l| + error of l + u32 4 |l|) + u32 d sum w |l| + sum over w < f of f |l|
// and a gradient those of its factors, with one rounding for each product. f is the smallest normal
// float32: a probability below it may count as 0, whatever it is multiplied by.
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
// A row has no D, which is NaN, if one of the two has no distribution. A reverse D is infinite if
// the student has a probability where the teacher has none, and has no gradient then.
#pragma once

#include <span>
#include <vector>

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

/// An id whose ln p may be found on either side of a clamp.
struct Straddle {
  double distance;   // of ln p from the clamp
  double q;          // part of R that depends on the side
  ChainBound error;  // of ln p
};

struct DivergenceTruth {
  Divergence divergence;
  Softmax p;              // of the student, on the support if the divergence is on it
  Softmax q;              // of the teacher
  double value = 0;       // D; NaN if p or q is none
  double of_student = 0;  // R
  ChainBound value_error;
  ChainBound of_student_error;  // without what straddles
  std::vector<Straddle> straddles;

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
  double computation = 0;
  double objective = 0;
};

/// Returns the element of a row that has a gradient. `gradient`: d loss / d D.
DivergenceColumn divergence_column(const DivergenceTruth& truth, const Enclosure& gradient,
                                   int serial_adds, double student, double teacher,
                                   double student_error, double teacher_error);

}  // namespace lossgrid
