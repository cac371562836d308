// SPDX-License-Identifier: Apache-2.0
// The float64 truth of a row's divergence from a teacher (row_terms.h), its gradient by the
// student's logits z, and their error bounds. With p and q the two distributions, g = d loss / d D,
// R = sum p (ln p - ln r), r = q (reverse) or m = b q + (1 - b) p (jsd):
//   forward  dz_v = g (p_v - q_v)
//   reverse  dz_v = g p_v (ln p_v - ln q_v - R)
//   jsd      dz_v = g (1 - b) p_v (ln(p_v / m_v) - R)
// All add up to 0 over a row.
//
// A float32 implementation has p_v with a relative error of D_v, as in bounds.h, and ln p_v with an
// absolute one; q_v and ln q_v with D'_v of the teacher's logits; ln m_v, made of the two
// logarithms by a log-sum-exp, with the larger of both and u32 4 (2 + |ln m_v|). A sum over w_v
// l_v, with w one of the distributions and l a difference of logarithms, has the errors of its
// summands and of its chain of d additions:
//   sum w (D_w |l| + error of l + u32 4 |l|) + u32 d sum w |l|
// and a gradient those of its factors, with one rounding for each product.
#pragma once

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
  double shared_error = 0;  // sum p e of errors e of the logits, and reading (bounds.h)

  double log_p(double logit) const;
  /// Returns D of a logit with error `error`.
  ChainBound error(double logit, double logit_error) const;
};

struct DivergenceTruth {
  Divergence divergence;
  Softmax p;              // of the student, on the support if the divergence is on it
  Softmax q;              // of the teacher
  double value = 0;       // D
  double of_student = 0;  // R
  ChainBound value_error;
  ChainBound of_student_error;
};

/// Logits of a row, [V] or of a shard, and the bounds of their errors.
struct DistilledLogits {
  std::span<const double> student;
  std::span<const double> teacher;
  std::span<const double> student_errors;
  std::span<const double> teacher_errors;
};

/// Returns the truth of a whole row. `reading`: the error that float64 logits of the student may
/// have from being read as float32.
DivergenceTruth divergence_truth(const Divergence& divergence, const DistilledLogits& logits,
                                 double reading);

/// One element of the gradient by z, with the bounds of errors of the computation and of the
/// interval of d loss / d D.
struct DivergenceColumn {
  double want = 0;
  double computation = 0;
  double objective = 0;
};

DivergenceColumn divergence_column(const DivergenceTruth& truth, const Enclosure& gradient,
                                   int serial_adds, double student, double teacher,
                                   double student_error, double teacher_error);

}  // namespace lossgrid
