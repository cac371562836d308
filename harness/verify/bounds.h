// SPDX-License-Identifier: Apache-2.0
// How far a right implementation may be from the truth, element by element (Blanchard, Higham and
// Higham, "Accurately computing the log-sum-exp and softmax functions", IMA J. Numer. Anal. 41,
// 2021, for the shape of the terms). tests/mutants/fit_bounds.cpp prints how much of each bound the
// valid implementations use; a constant may be tightened by what it shows, never widened by taste.
//
// With m = max, s = sum exp(x - m), p the probabilities, y the target, g = d loss / d logprob,
// lse = m + ln s, u32 = 2^-24, and d the longest serial float32 add chain that is declared:
//   |lp - truth| <= u32 (4 (B + |lse|) + d) + e_y + sum p e,
//     B = 8 + sum p |x - m| + |ln s| + |x_y - m| + |truth|
//   |H - truth| <= u32 (4 (8 + S2 + (1 + S1) (S1 + |ln s| + |lse|) + |truth|) + (1 + S1) d)
//                  + sum p |ln p + H| e,
//     S1 = sum p |x - m|, S2 = sum p (x - m)^2: H = ln s - (sum exp(x - m) (x - m)) / s
//   |dz_i - truth_i| <= 1.01 u_out |truth_i|
//                       + u32 |g| (p_i (4 (8 + |x_i - m| + |ln s| + |lse|) + d) + 4 |p_i - [i =
//                       y]|)
//                       + |g| p_i (e_i + sum p e)
//                       + radius(g) (1 + 1.01 u_out) |p_i - [i = y]|
// where g lies within radius(g) of its truth (enclosure.h) and |g| is its largest, and e_i is how
// far a logit may be that implementations make themselves (LogitsSource::read_errors; 0 where they
// are given it): the terms with e are the derivatives of lp, H and p by the logits. None is below
// the smallest normal float32 times max(1, |g|): vanishing probabilities underflow.
#pragma once

#include <algorithm>
#include <cmath>

#include "harness/core/dtype.h"
#include "harness/verify/truth.h"

namespace lossgrid {

inline constexpr double kSmallestNormalF32 = 1.1754943508222875e-38;

inline double logprob_bound(const RowTruth& row, int serial_adds) {
  const double log_sum = std::log(row.sum);
  const double b = 8 + row.spread + std::abs(log_sum) + std::abs(row.target_logit - row.max) +
                   std::abs(row.logprob);
  const double lse = std::abs(row.max + log_sum);
  return std::max(kSmallestNormalF32, unit_roundoff(DType::f32) * (4 * (b + lse) + serial_adds) +
                                          row.target_error + row.mean_error);
}

inline double entropy_bound(const RowTruth& row, int serial_adds) {
  const double log_sum = std::abs(std::log(row.sum));
  const double lse = std::abs(row.max + std::log(row.sum));
  const double b = 8 + row.spread_squared + (1 + row.spread) * (row.spread + log_sum + lse) +
                   std::abs(row.entropy());
  return std::max(
      kSmallestNormalF32,
      unit_roundoff(DType::f32) * (4 * b + (1 + row.spread) * serial_adds) + row.entropy_error);
}

/// Of the smallest or the largest logit `x` of a row, as float32: exact but for float64 logits and
/// for denormal numbers, which kernels may read as zero.
inline double range_bound(const RowTruth& row, double x, DType logits) {
  const double rounding = logits == DType::f64 ? unit_roundoff(DType::f32) * std::abs(x) : 0.0;
  return std::max(kSmallestNormalF32, rounding + row.range_error);
}

/// The parts of the gradient's bound that are the same for all columns of a row.
class GradientBound {
 public:
  struct Row {
    double u_out;       // 1.01 u_out
    double largest;     // |g|
    double mean_error;  // sum p e
    double radius;      // of g
    double max;         // m
    double row_term;    // 4 (8 + |ln s| + |lse|) + d
    double floor;
  };

  GradientBound(const RowTruth& row, const Enclosure& grad_logprob, DType out, int serial_adds)
      : row_{1.01 * unit_roundoff(out),
             std::max(std::abs(grad_logprob.low), std::abs(grad_logprob.high)),
             row.mean_error,
             grad_logprob.radius(),
             row.max,
             4 * (8 + std::abs(std::log(row.sum)) + std::abs(row.max + std::log(row.sum))) +
                 serial_adds,
             kSmallestNormalF32 * std::max(1.0, std::abs(grad_logprob.value))} {}

  const Row& row() const { return row_; }

  /// What rounding of the result may add, for a column with probability p.
  double rounding(double truth, double p, bool is_target) const {
    return row_.u_out * (std::abs(truth) + objective(p, is_target));
  }

  /// What the computation before it may add, for a column with logit x, probability p and, where
  /// implementations make the logits, how far theirs may be.
  double computation(double x, double p, bool is_target, double logit_error = 0) const {
    const double distance = p > 0 ? std::abs(x - row_.max) : 0.0;
    const double roundings =
        p * (row_.row_term + 4 * distance) + 4 * std::abs(p - (is_target ? 1.0 : 0.0));
    return std::max(row_.floor, row_.largest * (unit_roundoff(DType::f32) * roundings +
                                                p * (logit_error + row_.mean_error)));
  }

  /// What the interval of d loss / d logprob may add: the same way in all columns of the row.
  double objective(double p, bool is_target) const {
    return row_.radius * std::abs(p - (is_target ? 1.0 : 0.0));
  }

 private:
  Row row_;
};

}  // namespace lossgrid
