// SPDX-License-Identifier: Apache-2.0
// Error bounds of a right implementation, element by element (shape of the terms: Blanchard, Higham
// and Higham, "Accurately computing the log-sum-exp and softmax functions", IMA J. Numer. Anal. 41,
// 2021). tests/mutants/fit_bounds.cpp prints the part of each bound that valid implementations use;
// a constant may be tightened by its output, never widened by taste.
//
// clang-format off
// With m = max, s = sum exp(x - m), p the probabilities, y the target, g = d loss / d logprob,
// u32 = 2^-24, and d the longest serial float32 add chain that is declared:
//   |lp - truth| <= u32 (4 B + d) + r + e_y + sum p e,
//     B = 8 + sum p |x - m| + |ln s| + |x_y - m| + |truth|
//   |H - truth| <= u32 (4 (8 + S2 + (1 + S1) (S1 + |ln s|) + |truth|) + (1 + S1) d)
//                  + (1 + S1) r' + sum p |ln p + H| e,
//     S1 = sum p |x - m|, S2 = sum p (x - m)^2: H = ln s - (sum exp(x - m) (x - m)) / s
//   |dz_i - truth_i| <= 1.01 u_out |truth_i|
//                       + |g| p_i (u32 (4 (8 + |x_i - m| + |ln s|) + d) + r)
//                       + u32 |g| 4 |p_i - [i = y]|
//                       + |g| p_i (e_i + sum p e)
//                       + radius(g) (1 + 1.01 u_out) |p_i - [i = y]|
// clang-format on
// The distance x - m of two float32 or bf16 numbers is rounded once, in proportion to itself:
// relative to the maximum every term rounds in proportion to a distance, and a common offset of the
// logits changes no bound. By it exp(x - m) has a relative error of u32 (|x - m| + c), s one of
// u32 (S1 + d + c), and sum exp(x - m) (x - m) / s an error of u32 (S2 + S1 (S1 + d + c)); merging
// shards moves each term by a distance m_r - m once more. A sum of the logits themselves, as in
// H = m + ln s - sum p x, rounds in proportion to |x| and is not within the bound of H.
//
// r and r' are roundings in proportion to the logits, 4 u32 |m + ln s| where they are allowed:
//   - both with float64 logits, which implementations may read as float32;
//   - r alone with a declared log-sum-exp in float32 (RowTruth::rounds_log_sum_exp), which is
//     subtracted from logits.
//
// g lies within radius(g) of its truth (enclosure.h), and |g| is the largest absolute value there.
// e_i bounds the error of a logit that implementations make themselves (LogitsSource::read_errors);
// it is 0 for a given logit. The terms with e are the derivatives of lp, H and p by the logits. No
// bound is below the smallest normal float32 times max(1, |g|): vanishing probabilities underflow.
//
// All bounds are finite for finite logits, up to the largest float64: u32 multiplies m, ln s and
// |x - m| before anything is added to them. 0 times an infinite |g| or radius(g) counts as 0: a
// column of probability 0 has no gradient, however large g is.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/dtype.h"
#include "harness/verify/truth.h"

namespace lossgrid {

inline constexpr double kSmallestNormalF32 = std::numeric_limits<float>::min();

/// Returns 4 u32 |m + ln s|.
inline double log_sum_exp_rounding(const RowTruth& row) {
  return std::abs(4 * unit_roundoff(DType::f32) * row.max +
                  4 * unit_roundoff(DType::f32) * std::log(row.sum));
}

/// Returns r.
inline double offset_rounding(const RowTruth& row) {
  const bool is_allowed = row.reads_as_float32 || row.rounds_log_sum_exp;
  return is_allowed ? log_sum_exp_rounding(row) : 0.0;
}

/// Returns the largest value that a log-probability may have above 0. r does not count: m + ln s is
/// rounded in proportion to its size, but no rounding makes it smaller than m: s contains exp(0),
/// so that ln s >= 0, and rounding is monotone; and no logit exceeds m. So x_y - lse exceeds 0 at
/// most by the errors of ln s and of x_y - m, if another shift than m was subtracted.
inline double positive_logprob_bound(const RowTruth& row, int serial_adds) {
  const double u4 = 4 * unit_roundoff(DType::f32);
  const double b = u4 * (8 + row.spread + std::abs(std::log(row.sum))) +
                   u4 * std::abs(row.target_logit - row.max) + u4 * std::abs(row.logprob);
  return std::max(kSmallestNormalF32,
                  b + unit_roundoff(DType::f32) * serial_adds + row.target_error + row.mean_error);
}

/// Returns the bound of lp; 0 for a target of probability 0, whose log-probability is -inf.
inline double logprob_bound(const RowTruth& row, int serial_adds) {
  if (std::isinf(row.logprob)) return 0;
  return positive_logprob_bound(row, serial_adds) + offset_rounding(row);
}

/// Returns the bound of H.
inline double entropy_bound(const RowTruth& row, int serial_adds) {
  const double u32 = unit_roundoff(DType::f32);
  const double log_sum = std::abs(std::log(row.sum));
  const double b =
      8 + row.spread_squared + (1 + row.spread) * (row.spread + log_sum) + std::abs(row.entropy());
  const double of_reading = row.reads_as_float32 ? log_sum_exp_rounding(row) : 0.0;
  return std::max(kSmallestNormalF32, u32 * (4 * b + (1 + row.spread) * serial_adds) +
                                          (1 + row.spread) * of_reading + row.entropy_error);
}

/// Returns the bound of the smallest or the largest logit `x` of a row, as float32. These are exact
/// except for float64 logits and for denormal numbers, which kernels may read as zero.
inline double range_bound(const RowTruth& row, double x, DType logits) {
  const double rounding = logits == DType::f64 ? unit_roundoff(DType::f32) * std::abs(x) : 0.0;
  return std::max(kSmallestNormalF32, rounding + row.range_error);
}

/// Bound of the gradient of one row: the parts that all columns share, and functions for the rest.
class GradientBound {
 public:
  struct Row {
    double u_out;       // 1.01 u_out
    double largest;     // |g|
    double mean_error;  // sum p e
    double radius;      // of g
    double max;         // m
    double row_term;    // u32 (4 (8 + |ln s|) + d) + r
    double floor;
  };

  GradientBound(const RowTruth& row, const Enclosure& grad_logprob, DType out, int serial_adds)
      : row_{1.01 * unit_roundoff(out),
             std::max(std::abs(grad_logprob.low), std::abs(grad_logprob.high)),
             row.mean_error,
             grad_logprob.radius(),
             row.max,
             unit_roundoff(DType::f32) * (4 * (8 + std::abs(std::log(row.sum))) + serial_adds) +
                 offset_rounding(row),
             kSmallestNormalF32 * std::max(1.0, std::abs(grad_logprob.value))} {}

  const Row& row() const { return row_; }

  /// Returns the error that rounding of the result may add, for a column with probability p.
  double rounding(double truth, double p, bool is_target) const {
    return row_.u_out * (std::abs(truth) + objective(p, is_target));
  }

  /// Returns the error that the computation before it may add, for a column with logit x and
  /// probability p. `logit_error`: e_i; 0 for given logits.
  double computation(double x, double p, bool is_target, double logit_error = 0) const {
    const double u4 = 4 * unit_roundoff(DType::f32);
    const double distance = p > 0 ? std::abs(x - row_.max) : 0.0;
    const double roundings =
        p * (row_.row_term + u4 * distance) + u4 * std::abs(p - (is_target ? 1.0 : 0.0));
    return std::max(row_.floor,
                    times(row_.largest, roundings + p * (logit_error + row_.mean_error)));
  }

  /// Returns the error that the interval of d loss / d logprob may add: in one direction for all
  /// columns of the row.
  double objective(double p, bool is_target) const {
    return times(row_.radius, std::abs(p - (is_target ? 1.0 : 0.0)));
  }

  /// True if the interval of d loss / d logprob has no end; then the gradient of the row has no
  /// bound either.
  bool is_unbounded() const { return std::isinf(row_.largest) || std::isinf(row_.radius); }

 private:
  /// Returns size * x; 0 for x = 0, also with an infinite size.
  static double times(double size, double x) { return x == 0 ? 0 : size * x; }

  Row row_;
};

}  // namespace lossgrid
