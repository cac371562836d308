// SPDX-License-Identifier: Apache-2.0
// RowTruth: the float64 truth of one row of logits, and the bounds of its row terms (formulas:
// bounds.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "harness/core/dtype.h"
#include "harness/problem/batch/row_terms.h"
#include "harness/verify/truth/divergence_truth.h"

namespace lossgrid {

/// The gradient d T / dz_v of a row term by the logits: p_v (factor + centred (ln p_v + H)) +
/// finite / V, 0 where z_v is -inf.
struct TermSlope {
  double factor = 0;
  double centred = 0;
  double finite = 0;
};

/// The truth of row t, which predicts token t + 1 of its sequence. Rows without a next token keep
/// the defaults.
struct RowTruth {
  std::int32_t target = -1;
  bool valid = false;            // its target is trained on
  double max = 0;                // m
  double sum = 1;                // s = sum exp(x - m)
  double others = 0;             // s without the target's term: 1 - p_y = others / s
  double target_logit = 0;       // x_y
  double logprob = 0;            // x_y - m - ln s; NaN where logits are NaN, inf or -inf alone
  double spread = 0;             // sum p |x - m|
  double spread_squared = 0;     // sum p (x - m)^2
  double smallest = 0;           // smallest logit that is not -inf
  double vocab = 1;              // V
  double finite = 1;             // F: logits that are not -inf
  double mean_distance = 0;      // A = (1/V) sum |x - m| over them
  double squares = 1;            // sum exp(x - m)^2
  double margin = 0;             // x_y less the largest other logit
  bool ties_with_lower = false;  // an id below the target has its logit
  // Changes, to first order, by the errors e_v of logits that implementations make themselves
  // (LogitsSource::read_errors); 0 for given logits.
  double target_error = 0;  // e_y
  double mean_error = 0;    // sum p e
  double range_error = 0;   // largest e: changes the smallest and the largest logit
  // entropy: sum p |ln p + H| e. mean_logprob: (1/V) sum e over logits that are not -inf + (F/V)
  // sum p e. sum_p2: sum 2 p |p - sum p^2| e. mean_logit: (1/F) sum e over logits that are not
  // -inf. Means also hold what they lose where the largest float32 stands for a logit. Others: 0.
  ByRowTerm<double> term_error = {};
  // Roundings in proportion to the logits that bounds allow for (bounds.h).
  bool reads_as_float32 = false;    // logits are float64, and may be read as float32
  bool rounds_log_sum_exp = false;  // a log-sum-exp in float32 is declared
  double quotient_error = 0;        // relative error of logits by declared roundings to bf16
  // A sampling mask leaves its target out, and the case keeps it: logprob is 0, whatever the logits
  // are, and has no gradient.
  bool is_filtered = false;
  // Set where the objective has a divergence from a teacher.
  std::optional<DivergenceTruth> divergence = std::nullopt;

  /// Return the row terms (row_terms.h) H = - sum p ln p, L = m + ln s, M = -A - (F/V) ln s,
  /// P = sum p^2, and the mean logit m - A V/F.
  double entropy() const;
  double logsumexp() const;
  double mean_logprob() const;
  double sum_p2() const { return squares / sum / sum; }
  double mean_logit() const { return max - mean_distance / finite_share(); }
  /// True if the target is the id with the largest logit, the lowest such id.
  bool is_top() const { return margin > 0 || (margin == 0 && !ties_with_lower); }
  /// True if errors and roundings of the logits may change is_top().
  bool may_change_top() const;
  /// Returns any of them; NaN for a divergence that there is not.
  double term(RowTerm which) const;
  /// True for a mean over the vocabulary that may be -inf in float32, in which the sum that it is
  /// made of overflows: of distances from the maximum, of ln p or of the logits themselves.
  bool may_overflow(RowTerm which) const;
  /// Returns the gradient of a row term; nothing for a divergence, whose columns have their own.
  TermSlope slope(RowTerm which) const;
  /// Returns ln p + H = x - m + sum p |x - m| of the column with logit x and probability p, whose
  /// mean over p is 0; 0 where p is 0.
  double centred_logprob(double x, double p) const { return p > 0 ? x - max + spread : 0; }
  /// Returns F/V.
  double finite_share() const { return finite / vocab; }
};

/// Returns the truth of one row with `logits` [V] and `target` in [0, V). A logit of -inf has the
/// probability 0, and a target of probability 0 has the log-probability -inf. `errors` [V]: bounds
/// of the errors of the logits; empty for given ones.
RowTruth row_truth(std::span<const double> logits, std::int32_t target,
                   std::span<const double> errors = {});

/// Sets the changes of the numbers of a row by the errors of its logits.
void set_errors(std::span<const double> logits, std::span<const double> errors, RowTruth& row);

/// Largest overflow of a logit beyond float32: sums of errors are finite, so that 0 times them is
/// 0.
inline constexpr double kLargestOverflow = 1e300;

/// Returns how far a logit is beyond the largest float32, which may stand for it.
double beyond_float32(double logit);

/// Returns 4 u32 |m + ln s|.
double log_sum_exp_rounding(const RowTruth& row);

/// Returns r, 0 where no rounding in proportion to the logits is allowed.
double offset_rounding(const RowTruth& row);

/// Returns the bound of H.
double entropy_bound(const RowTruth& row, int serial_adds);

/// Returns the bound of L.
double logsumexp_bound(const RowTruth& row, int serial_adds);

/// Returns the bound of M.
double mean_logprob_bound(const RowTruth& row, int serial_adds);

/// Returns the bound of a row term. `logits`: dtype of the logits.
double term_bound(const RowTruth& row, RowTerm term, int serial_adds, DType logits);

}  // namespace lossgrid
