// SPDX-License-Identifier: Apache-2.0
// The float64 truth of a problem, from its logits as rounded to their dtype, or as the products of
// hidden states and weight: a few numbers per row, streamed row by row (O(V) memory), which depend
// on no grid and serve all trials of a case; and the objective's truth on top, with the intervals
// that the rounding of a trial allows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Row t predicts token t + 1 of its sequence; rows that predict nothing keep the defaults.
struct RowTruth {
  std::int32_t target = -1;
  bool valid = false;         // its target is trained on
  double max = 0;             // m
  double sum = 1;             // s = sum exp(x - m)
  double others = 0;          // the same without the target's term: 1 - p_y = others / s
  double target_logit = 0;    // x_y
  double logprob = 0;         // x_y - m - ln s; NaN where logits are NaN, inf or -inf alone
  double spread = 0;          // sum p |x - m|
  double spread_squared = 0;  // sum p (x - m)^2
  double smallest = 0;        // logit that is not -inf
  // Of logits that implementations make themselves, each up to e_v away
  // (LogitsSource::read_errors); 0 where they are given. What that may change, to first order:
  double target_error = 0;   // e_y
  double mean_error = 0;     // sum p e
  double range_error = 0;    // largest e: of the smallest and the largest logit
  double entropy_error = 0;  // sum p |ln p + H| e

  /// - sum p ln p
  double entropy() const;
};

struct LinearTruth;

struct Truth {
  std::vector<RowTruth> rows;  // [T] by true token row
  ObjectiveTruth objective;    // by true token row
  // Of a problem that starts from hidden states, else null. By rows of the whole batch: parts share
  // it (Problem::whole_row).
  std::shared_ptr<const LinearTruth> linear = nullptr;
};

/// The unsharded, unpadded batch of a problem.
PackedBatch unpadded_batch(const Problem& problem);

/// One row: `logits` [V] are read, `target` is in [0, V). -inf logits have no probability, and a
/// target that has none has the log-probability -inf. `errors` [V]: how far logits may be, or empty
/// where they are given.
RowTruth row_truth(std::span<const double> logits, std::int32_t target,
                   std::span<const double> errors = {});

/// errors[k] := how far the logit of id begin + k, logits[k], may be from its truth where
/// implementations make it; 0 where it is given.
void read_logit_errors(const LogitsSource& source, std::int64_t token, std::int64_t begin,
                       std::span<const double> logits, std::span<double> errors);

/// All rows, on `threads` threads (rows are independent: the result does not depend on it).
std::vector<RowTruth> compute_rows(const Problem& problem, int threads);

/// Throws bad_input where a row that is trained on has no log-probability: names the sequence, the
/// token and what its logits hold.
void require_trainable(const Problem& problem, std::span<const RowTruth> rows);

/// Throws bad_input where the loss or a metric is NaN, or d loss / d logprob not finite: names it
/// and the first target of probability 0, if there is one.
void require_numbers(const Problem& problem, const Truth& truth);

/// The objective on rows that a float32 implementation knows up to their bounds (bounds.h), with
/// the given longest serial add chain over the vocabulary; and of a problem with a projection the
/// truth of its gradients (linear_truth.h), on the threads of the process. `rounds_logits`: logits
/// that are made from hidden states in bf16 are rounded to it, which counts as an error of each.
Truth make_truth(const Problem& problem, std::vector<RowTruth> rows, const Objective& objective,
                 int serial_adds, bool rounds_logits = false);

/// By which part a probability may change when its logit is rounded to bf16.
double logit_rounding(double logit);

/// The truth of a part of the problem that `whole` is the truth of.
Truth take_part(const Truth& whole, const Problem& part);

/// p[k] = probability of the id with logit logits[k]. `p` may be `logits`.
void truth_probabilities(const RowTruth& row, std::span<const double> logits, std::span<double> p);

/// d loss / d logits of row `row` for vocab ids begin .. begin + p.size(): g ([v = y] - p_v). `out`
/// may be `p`.
void truth_gradient(const RowTruth& row, double grad_logprob, std::span<const double> p,
                    std::int64_t begin, std::span<double> out);

}  // namespace lossgrid
