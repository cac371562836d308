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
#include "harness/verify/truth/divergence_truth.h"
#include "harness/verify/truth/row_truth.h"

namespace lossgrid {

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

/// Sets errors[k] to the bound of the error of logits[k], the logit of id begin + k, in
/// implementations that make it themselves; 0 for a given logit.
void read_logit_errors(const LogitsSource& source, std::int64_t token, std::int64_t begin,
                       std::span<const double> logits, std::span<double> errors);

/// Reads the logits of a teacher for ids begin .. begin + logits.size() in row `token`, and the
/// bounds of their errors: beyond the largest float32, that number may stand for a logit.
void read_teacher_row(const Problem& problem, std::int64_t token, std::int64_t begin,
                      std::span<double> logits, std::span<double> errors);

/// Returns all rows, made on `threads` threads, with their divergence from the problem's teacher if
/// one is asked for. Rows are independent: the result does not depend on
/// the number of threads.
std::vector<RowTruth> compute_rows(const Problem& problem, int threads,
                                   const Divergence& divergence = {});

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
