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
//   |L - truth| <= u32 (4 (8 + S1 + |ln s| + |truth|) + d) + sum p e,  L = m + ln s
//   |M - truth| <= u32 (4 (8 + A + |ln s| + |truth|) + (1 + A) d) + r F/V
//                  + (1/V) sum e + (F/V) sum p e,
//     M = -A - (F/V) ln s, A = (1/V) sum |x - m| over the F logits that are not -inf
//   |P - truth| <= u32 (4 (8 P + 2 S1 / s + 2 P (S1 + |ln s|)) + 3 d P) + 2 P r
//                  + sum 2 p |p - P| e,  P = sum p^2
//   |Z - truth| <= u32 (4 (8 + A V/F + |truth|) + (1 + A V/F) d) + (1/F) sum e,  Z = m - A V/F
//   |dz_i - truth_i| <= 1.01 u_out |truth_i|
//                       + |g| p_i (u32 (4 (8 + |x_i - m| + |ln s|) + d) + r)
//                       + u32 |g| 4 |p_i - [i = y]|
//                       + |g| p_i (e_i + sum p e)
//                       + radius(g) (1 + 1.01 u_out) |p_i - [i = y]|
// and where the loss depends on row terms (row_terms.h), with h, l, m' = d loss / d (H, L, M), by
// whose slopes (TermSlope) the gradients of all terms are bounded, and
// D_i = u32 (4 (8 + |x_i - m| + |ln s|) + d) + r + e_i + sum p e,
//                       + |h| p_i (D_i (1 + |ln p_i + H|) + bound of H)
//                       + |l| p_i D_i
//                       + |m'| (u32 4 (1/V + p_i F/V) + D_i p_i F/V)      if x_i is not -inf
//                       + (radius(h) p_i |ln p_i + H| + radius(l) p_i + radius(m') |1/V - p_i F/V|)
//                         (1 + 1.01 u_out)
// clang-format on
// The distance x - m of two float32 or bf16 numbers is rounded once, in proportion to itself:
// relative to the maximum every term rounds in proportion to a distance, and a common offset of the
// logits changes no bound. By it exp(x - m) has a relative error of u32 (|x - m| + c), s one of
// u32 (S1 + d + c), and sum exp(x - m) (x - m) / s an error of u32 (S2 + S1 (S1 + d + c)); merging
// shards moves each term by a distance m_r - m once more. A sum of the logits themselves, as in
// H = m + ln s - sum p x, rounds in proportion to |x| and is not within the bound of H.
//
// L is m + ln s, which is rounded in proportion to itself once: 4 u32 |truth| holds the rounding of
// float64 logits to float32 as well. A is a sum of distances, each rounded in proportion to itself,
// in a chain of d additions: u32 (A (1 + d) + c). ln s enters M by at most its own error, as F <=
// V, and S1 <= H <= ln V, by which s is off, is below the constant for every V that has 32 bits.
//
// P is (sum exp(2 (x - m))) / s^2: twice the relative errors of exp(x - m) and of s, whose part in
// proportion to a distance is sum p^2 |x - m| <= S1 max p = S1 / s. Z is m and a mean of distances.
// Top-1 has no rounding: it may be either number where errors of logits exceed the margin of the
// target (RowTruth::may_change_top), and is exact elsewhere.
//
// The row terms have the gradients -p_i (ln p_i + H), p_i and 1/V - p_i F/V (logit_gradient.h). D_i
// bounds the relative error of p_i and, since |ln p_i| <= |x_i - m| + |ln s|, the error of ln p_i.
// Roundings of products and sums are in proportion to the sizes of the terms, |l| p_i,
// |h| p_i (|ln p_i| + H), |m'|/V and |m'| p_i F/V, also where they are added up to factors of p_i
// and of p_i ln p_i first: all but that of |m'|/V, which has a summand of its own, are below the
// part 4 (8 + |x_i - m| + |ln s|) of D_i and the part 4 (8 + |H|) of the bound of H.
//
// r and r' are roundings in proportion to the logits, 4 u32 |m + ln s| where they are allowed:
//   - both with float64 logits, which implementations may read as float32;
//   - r alone with a declared log-sum-exp in float32 (RowTruth::rounds_log_sum_exp), which is
//     subtracted from logits.
//
// These are derivatives, and D_i p_i is the error of p_i, as long as D_i is small. Where logits are
// so large that it exceeds 1, as of float64 logits around -1e12 that are read as float32, exponents
// are off by D_i: p_i exp(D_i), at most 1, stands for D_i p_i if it is larger.
//
// g lies within radius(g) of its truth (enclosure.h), and |g| is the largest absolute value there.
// e_i bounds the error of a logit that implementations make themselves (LogitsSource::read_errors);
// it is 0 for a given logit. The terms with e are the derivatives of lp, H, L, M and p by the
// logits.
//
// To every bound f, the smallest normal float32, is added: smaller numbers may count as 0. In the
// gradient that may be a probability, its product with g, or the result, all below 2 f then
// (vanishing.h). The error is the truth of the element, at most 2 f max(1, size) and what the
// number was off by before it vanished, so that both add up. The size is |g| or, with row terms,
// |g| + |l| + |m'| + |h| (H + 88): where p is below f, |ln p| p is at most 88 times as large. By a
// slope dz/dx (input_column.h) a probability and its product with g are multiplied after they
// vanished, but not the result: 2 f max(1, slope max(1, size)).
//
// All bounds are finite for finite logits, up to the largest float64: u32 multiplies m, ln s and
// |x - m| before anything is added to them. 0 times an infinite |g| or radius(g) counts as 0: a
// column of probability 0 has no gradient, however large g is.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/dtype.h"
#include "harness/verify/truth/truth.h"
#include "harness/verify/truth/vanishing.h"

namespace lossgrid {

/// Returns the largest value that a log-probability may have above 0. r does not count: m + ln s is
/// rounded in proportion to its size, but no rounding makes it smaller than m: s contains exp(0),
/// so that ln s >= 0, and rounding is monotone; and no logit exceeds m. So x_y - lse exceeds 0 at
/// most by the errors of ln s and of x_y - m, if another shift than m was subtracted.
inline double positive_logprob_bound(const RowTruth& row, int serial_adds) {
  const double u4 = 4 * unit_roundoff(DType::f32);
  const double b = u4 * (8 + row.spread + std::abs(std::log(row.sum))) +
                   u4 * std::abs(row.target_logit - row.max) + u4 * std::abs(row.logprob);
  return kSmallestNormalF32 + b + unit_roundoff(DType::f32) * serial_adds + row.target_error +
         row.mean_error;
}

/// Returns the bound of lp; 0 for a target of probability 0, whose log-probability is -inf, or 0
/// where a sampling mask leaves it out.
inline double logprob_bound(const RowTruth& row, int serial_adds) {
  if (std::isinf(row.logprob) || row.is_filtered) return 0;
  return positive_logprob_bound(row, serial_adds) + offset_rounding(row);
}

/// Returns the number that underflow of probabilities is multiplied by in a gradient.
inline double gradient_size(const RowTruth& row, const RowGradientTruth& gradient) {
  const double of_logprob = std::abs(gradient.logprob.value);
  if (gradient.logprob_alone()) return of_logprob;
  double of_terms = of_logprob;
  double of_logarithms = 0;
  for (const RowTerm term : kAllGradientTerms) {
    const TermSlope slope = row.slope(term);
    const double size = std::abs(gradient.terms[term].value);
    const double of_p = std::max(std::abs(slope.factor), std::abs(slope.finite));
    if (of_p != 0) of_terms += size * of_p;
    if (slope.centred != 0)
      of_logarithms += size * (std::abs(slope.centred) * (row.entropy() + 88));
  }
  return of_terms + of_logarithms;
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
    double log_sum;     // ln s
    double row_term;    // u32 (4 (8 + |ln s|) + d) + r
    double floor;       // 2 f max(1, size)
  };

  GradientBound(const RowTruth& row, const RowGradientTruth& gradient, DType out, int serial_adds)
      : row_{1.01 * unit_roundoff(out),
             largest_of(gradient.logprob),
             row.mean_error,
             gradient.logprob.radius(),
             row.max,
             std::log(row.sum),
             unit_roundoff(DType::f32) * (4 * (8 + std::abs(std::log(row.sum))) + serial_adds) +
                 offset_rounding(row),
             kVanishingF32 * std::max(1.0, gradient_size(row, gradient))},
        has_terms_(!gradient.logprob_alone()),
        terms_{{},
               {},
               {},
               row.spread,
               entropy_bound(row, serial_adds),
               1 / row.vocab,
               row.finite_share()} {
    for (const RowTerm term : kAllGradientTerms) {
      terms_.slope[term] = row.slope(term);
      terms_.largest[term] = largest_of(gradient.terms[term]);
      terms_.radius[term] = gradient.terms[term].radius();
    }
  }

  /// The bound of a row whose loss depends on its log-probability alone.
  GradientBound(const RowTruth& row, const Enclosure& grad_logprob, DType out, int serial_adds)
      : GradientBound(row, RowGradientTruth{grad_logprob}, out, serial_adds) {}

  const Row& row() const { return row_; }

  /// Returns the error that rounding of the result may add, for a column with logit x and
  /// probability p.
  double rounding(double truth, double x, double p, bool is_target) const {
    return row_.u_out * (std::abs(truth) + objective(x, p, is_target));
  }

  /// Returns the error that the computation before it may add, for a column with logit x and
  /// probability p. `logit_error`: e_i; 0 for given logits.
  double computation(double x, double p, bool is_target, double logit_error = 0) const {
    return row_.floor + roundings(x, p, is_target, logit_error);
  }

  /// Returns the part of computation() that is not the floor.
  double roundings(double x, double p, bool is_target, double logit_error) const {
    const double u4 = 4 * unit_roundoff(DType::f32);
    const double distance = p > 0 ? std::abs(x - row_.max) : 0.0;
    const double relative =
        p * (row_.row_term + u4 * distance) + u4 * std::abs(p - (is_target ? 1.0 : 0.0));
    const double of_logprob = times(row_.largest, relative + p * (logit_error + row_.mean_error) +
                                                      beyond_proportion(x, p, logit_error));
    return has_terms_ ? of_logprob + of_terms(x, p, logit_error) : of_logprob;
  }

  /// Returns D.
  double relative_error(double x, double p, double logit_error) const {
    const double distance = p > 0 ? std::abs(x - row_.max) : 0.0;
    return row_.row_term + 4 * unit_roundoff(DType::f32) * distance + logit_error + row_.mean_error;
  }

  /// Returns what the error of p is above p D: above D = 1, where an exponent that is off by D
  /// makes more of it.
  double beyond_proportion(double x, double p, double logit_error) const {
    const double relative = relative_error(x, p, logit_error);
    if (!(relative > 1) || is_minus_infinity(x)) return 0;
    const double log_probability = x - row_.max - row_.log_sum;
    return std::max(0.0, std::exp(std::min(0.0, log_probability + relative)) - p * relative);
  }

  /// Returns the error that the intervals of d loss / d numbers may add: in one direction for all
  /// columns of the row.
  double objective(double x, double p, bool is_target) const {
    const double of_logprob = times(row_.radius, std::abs(p - (is_target ? 1.0 : 0.0)));
    if (!has_terms_ || is_minus_infinity(x)) return of_logprob;
    double sum = of_logprob;
    for (const RowTerm term : kAllGradientTerms) {
      const TermSlope& slope = terms_.slope[term];
      const double by_logit = p * slope.factor + p * centred_logprob(x, p) * slope.centred +
                              terms_.vocab_share * slope.finite;
      sum += times(terms_.radius[term], std::abs(by_logit));
    }
    return sum;
  }

  /// Returns the part of objective() that does not cancel in the sum of a row: that of a term
  /// whose gradient does not add up to 0, shared out by p.
  double row_sum_objective(double p) const {
    double sum = 0;
    for (const RowTerm term : kAllGradientTerms) {
      const TermSlope& slope = terms_.slope[term];
      const double row_sum = slope.factor + slope.finite * terms_.finite_share;
      sum += times(terms_.radius[term], p * std::abs(row_sum));
    }
    return sum;
  }

  /// True if an interval of d loss / d numbers has no end; then the gradient of the row has no
  /// bound either.
  bool is_unbounded() const {
    const auto is_infinite = [](double x) { return std::isinf(x); };
    return is_infinite(row_.largest) || is_infinite(row_.radius) ||
           std::any_of(terms_.largest.begin(), terms_.largest.end(), is_infinite) ||
           std::any_of(terms_.radius.begin(), terms_.radius.end(), is_infinite);
  }

 private:
  /// The largest d loss / d row terms, their radii, and what the columns share of their errors.
  struct Terms {
    ByGradientTerm<double> largest;  // |h|, |l|, |m'|
    ByGradientTerm<double> radius;
    ByGradientTerm<TermSlope> slope;
    double spread;         // S1
    double entropy_bound;  // of H
    double vocab_share;    // 1/V
    double finite_share;   // F/V
  };

  static double largest_of(const Enclosure& x) {
    return std::max(std::abs(x.low), std::abs(x.high));
  }
  static bool is_minus_infinity(double x) { return x == -std::numeric_limits<double>::infinity(); }

  /// Returns ln p + H; 0 where p is 0.
  double centred_logprob(double x, double p) const {
    return p > 0 ? x - row_.max + terms_.spread : 0;
  }

  /// Returns the summands of the row terms.
  double of_terms(double x, double p, double logit_error) const {
    if (is_minus_infinity(x)) return 0;
    const double u4 = 4 * unit_roundoff(DType::f32);
    const double of_p =
        p * relative_error(x, p, logit_error) + beyond_proportion(x, p, logit_error);  // p D
    double sum = 0;
    for (const RowTerm term : kAllGradientTerms) {
      const TermSlope& slope = terms_.slope[term];
      const double factor = std::abs(slope.factor);
      double of_term = 0;
      if (slope.finite != 0) {
        of_term += u4 * (terms_.vocab_share * std::abs(slope.finite) + p * factor);
      }
      of_term += times(of_p, factor);
      if (slope.centred != 0) {
        of_term += std::abs(slope.centred) *
                   (of_p * (1 + std::abs(centred_logprob(x, p))) + p * terms_.entropy_bound);
      }
      sum += times(terms_.largest[term], of_term);
    }
    return sum;
  }

  /// Returns size * x; 0 for x = 0, also with an infinite size.
  static double times(double size, double x) { return x == 0 ? 0 : size * x; }

  Row row_;
  bool has_terms_;
  Terms terms_;
};

}  // namespace lossgrid
