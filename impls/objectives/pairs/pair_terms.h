// SPDX-License-Identifier: Apache-2.0
// PairTerms: the terms of one token (harness/loss/terms_kernels.h) of objectives of preference
// pairs.
#pragma once

#include <cmath>

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

struct PairTerms {
  /// Sums over tokens: kLogRatio of weight * (lp - ref), kAlignment of lp - log sum_v p_v^2.
  enum SequenceSum { kLogRatio, kLogprob, kTokens, kAlignment };
  enum Coefficient { kPreference, kSft };  // d loss / d lp of a valid token, by term

  static constexpr int kSequenceSums = 4;
  static constexpr int kCoefficients = 2;
  static constexpr int kSums = 0;
  static constexpr int kMaxima = 0;
  static constexpr bool kHasGradient = true;

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& tokens, std::int64_t t,
                                       double* sums) const {
    const double logprob = tokens.logprobs[t];
    const double weight = weights_tokens ? tokens.weights[t] : 1;
    sums[kLogRatio] +=
        weight * (has_reference ? logprob - tokens.input(TokenInput::reference_policy_logprobs)[t]
                                : logprob);
    sums[kLogprob] += logprob;
    sums[kTokens] += 1;
    if (weighs_pairs) {
      sums[kAlignment] += logprob - std::log(static_cast<double>(tokens.terms[RowTerm::sum_p2][t]));
    }
  }

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> coefficients,
                                          double* /*sums*/, double* /*maxima*/) const {
    if (tokens.valid[t] == 0) return {};
    const std::int64_t sequence = tokens.sequence[t];
    const double weight = weights_tokens ? tokens.weights[t] : 1;
    return {.logprob = as_gradient(weight * coefficients.at(sequence, kPreference) +
                                   coefficients.at(sequence, kSft))};
  }

  bool has_reference = true;
  bool weights_tokens = false;  // by Objective::token_weights; else all weights are 1
  bool weighs_pairs = false;    // kAlignment is needed
};

}  // namespace lossgrid
