// SPDX-License-Identifier: Apache-2.0
// The float64 truth of a problem, from its logits as rounded to their dtype, or from the products
// of hidden states and weight. A few numbers per row, streamed row by row (O(V) memory), depend on
// no grid and serve all trials of a case; the objective's truth on top has the intervals that the
// rounding of a trial allows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/problem/batch/problem.h"
#include "harness/verify/divergence_truth.h"

namespace lossgrid {

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
  double target_error = 0;        // e_y
  double mean_error = 0;          // sum p e
  double range_error = 0;         // largest e: changes the smallest and the largest logit
  double entropy_error = 0;       // sum p |ln p + H| e
  double mean_logprob_error = 0;  // (1/V) sum e over logits that are not -inf + (F/V) sum p e
  double sum_p2_error = 0;        // sum 2 p |p - sum p^2| e
  double mean_logit_error = 0;    // (1/F) sum e over logits that are not -inf
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
  /// Returns ln p + H = x - m + sum p |x - m| of the column with logit x and probability p, whose
  /// mean over p is 0; 0 where p is 0.
  double centred_logprob(double x, double p) const { return p > 0 ? x - max + spread : 0; }
  /// Returns F/V.
  double finite_share() const { return finite / vocab; }
};

/// Sums over the logits of a row that are rounded, each by up to e, with s = ln p + H.
struct LogitRoundings {
  double squares = 0;          // sum (p e)^2
  double centred = 0;          // sum (p e)^2 s
  double centred_squares = 0;  // sum (p e)^2 s^2

  void add(double p, double e, double s) {
    const double square = p * e * p * e;
    squares += square;
    centred += square * s;
    centred_squares += square * s * s;
  }
};

/// Roundings that an implementation declares and that change the truth of rows.
struct DeclaredRowRoundings {
  bool logits = false;       // made from hidden states in bf16, to bf16: an error of each logit
  bool log_sum_exp = false;  // to float32, before logits are subtracted from it
  // Given logits in bf16 are divided by a temperature: that, and the quotients, to bf16.
  bool temperature = false;
  bool quotient = false;
  friend bool operator==(const DeclaredRowRoundings&, const DeclaredRowRoundings&) = default;
};

struct LinearTruth;

struct Truth {
  std::vector<RowTruth> rows;  // [T] by true token row
  ObjectiveTruth objective;    // by true token row
  // Truth of a problem that starts from hidden states, else null. By rows of the whole batch: parts
  // share it (Problem::whole_row).
  std::shared_ptr<const LinearTruth> linear = nullptr;
};

/// Returns the truth of one row with `logits` [V] and `target` in [0, V). A logit of -inf has the
/// probability 0, and a target of probability 0 has the log-probability -inf. `errors` [V]: bounds
/// of the errors of the logits; empty for given ones.
RowTruth row_truth(std::span<const double> logits, std::int32_t target,
                   std::span<const double> errors = {});

/// Sets errors[k] to the bound of the error of logits[k], the logit of id begin + k, in
/// implementations that make it themselves; 0 for a given logit.
void read_logit_errors(const LogitsSource& source, std::int64_t token, std::int64_t begin,
                       std::span<const double> logits, std::span<double> errors);

/// Reads the logits of a teacher for ids begin .. begin + logits.size() in row `token`, and the
/// bounds of their errors.
void read_teacher_row(const Problem& problem, std::int64_t token, std::int64_t begin,
                      std::span<double> logits, std::span<double> errors);

/// Returns all rows, made on `threads` threads, with their divergence from the problem's teacher if
/// one is asked for. Rows are independent: the result does not depend on
/// the number of threads.
std::vector<RowTruth> compute_rows(const Problem& problem, int threads,
                                   const Divergence& divergence = {});

/// Throws bad_input if a row that is trained on has no log-probability, or a divergence without a
/// gradient: names the sequence, the token and the values of the logits.
void require_trainable(const Problem& problem, std::span<const RowTruth> rows);

/// Throws bad_input if the loss or a metric is NaN, or d loss / d logprob or by a row term is not
/// finite: names it and the first target of probability 0, if there is one.
void require_numbers(const Problem& problem, const Truth& truth);

/// Returns the objective's truth over rows that a float32 implementation finds within their bounds
/// (bounds.h), with `serial_adds` as its longest serial add chain over the vocabulary; for a
/// problem with an lm_head also the truth of its gradients (linear_truth.h), made on the threads of
/// the process.
Truth make_truth(const Problem& problem, std::vector<RowTruth> rows, const Objective& objective,
                 int serial_adds, const DeclaredRowRoundings& declared = {});

/// Returns the largest relative change of a probability when its logit is rounded to bf16.
double logit_rounding(double logit);

/// Returns the truth of `part` of the problem whose truth is `whole`.
Truth take_part(const Truth& whole, const Problem& part);

/// Sets p[k] to the probability of the id with logit logits[k]. `p` may be `logits`.
void truth_probabilities(const RowTruth& row, std::span<const double> logits, std::span<double> p);

/// Sets `out` to d loss / d logits of row `row` for vocab ids begin .. begin + p.size(), where the
/// loss depends on the log-probability alone (else logit_gradient.h): g ([v = y] - p_v). `out` may
/// be `p`.
void truth_gradient(const RowTruth& row, double grad_logprob, std::span<const double> p,
                    std::int64_t begin, std::span<double> out);

}  // namespace lossgrid
