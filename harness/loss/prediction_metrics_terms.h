// SPDX-License-Identifier: Apache-2.0
// PredictionMetricsTerms: the terms of one token (terms_kernels.h) of the metrics about
// predictions.
#pragma once

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

/// Averages over valid tokens of sum_p2, top1 and mean_logit (row_terms.h), in this order. The
/// names come from verl (`sum_pi_squared`), the SFT trainer of TRL (`mean_token_accuracy`), and
/// TRL's metrics of mean logits.
inline constexpr const char* kPredictionMetrics[] = {"sum_pi_squared_avg", "mean_token_accuracy",
                                                     "mean_logits_avg"};

struct PredictionMetricsTerms {
  static constexpr int kValues = 3;

  static constexpr int kSequenceSums = 0;
  static constexpr int kSums = 1 + kValues;  // valid tokens, each value
  static constexpr int kMaxima = 0;
  static constexpr bool kHasGradient = false;

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& /*tokens*/, std::int64_t /*t*/,
                                       double* /*sums*/) const {}

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> /*coefficients*/,
                                          double* sums, double* /*maxima*/) const {
    if (tokens.valid[t] == 0) return {};
    sums[0] += 1;
    sums[1] += tokens.terms[RowTerm::sum_p2][t];
    sums[2] += tokens.terms[RowTerm::top1][t];
    sums[3] += tokens.terms[RowTerm::mean_logit][t];
    return {};
  }
};

}  // namespace lossgrid
