// SPDX-License-Identifier: Apache-2.0
// The float64 truth of a problem, from its logits as rounded to their dtype: a few numbers per row,
// streamed row by row (O(V) memory), and the objective's truth on top. It depends on no grid, so
// one truth serves all trials of a case.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/problem/problem.h"

namespace lossgrid {

/// Row t predicts token t + 1 of its sequence; rows that predict nothing keep the defaults.
struct RowTruth {
  std::int32_t target = -1;
  bool valid = false;       // its target is trained on
  double max = 0;           // m
  double sum = 1;           // s = sum exp(x - m)
  double others = 0;        // the same without the target's term: 1 - p_y = others / s
  double target_logit = 0;  // x_y
  double logprob = 0;       // x_y - m - ln s
  double spread = 0;        // sum p |x - m|
};

struct Truth {
  std::vector<RowTruth> rows;  // [T] by true token row
  ObjectiveTruth objective;    // by true token row
};

/// The unsharded, unpadded batch of a problem.
PackedBatch unpadded_batch(const Problem& problem);

/// One row: `logits` [V] are read, `target` is in [0, V). -inf logits have no probability.
RowTruth row_truth(std::span<const double> logits, std::int32_t target);

/// All rows, on `threads` threads (rows are independent: the result does not depend on it).
Truth compute_truth(const Problem& problem, const Objective& objective, int threads);

/// p[k] = probability of the id with logit logits[k]. `p` may be `logits`.
void truth_probabilities(const RowTruth& row, std::span<const double> logits, std::span<double> p);

/// d loss / d logits of row `row` for vocab ids begin .. begin + p.size(): g ([v = y] - p_v). `out`
/// may be `p`.
void truth_gradient(const RowTruth& row, double grad_logprob, std::span<const double> p,
                    std::int64_t begin, std::span<double> out);

}  // namespace lossgrid
