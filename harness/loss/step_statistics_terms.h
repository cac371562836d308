// SPDX-License-Identifier: Apache-2.0
// StepStatisticsTerms: the terms of one token (terms_kernels.h) of the statistics of a step.
#pragma once

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

struct StepStatisticsTerms {
  // Values of a valid token: loss, entropy, vocab_min, vocab_max.
  static constexpr int kValues = 4;

  static constexpr int kSequenceSums = 2;      // -log-probabilities, valid tokens
  static constexpr int kSums = 2 + kValues;    // true tokens, valid tokens, each value
  static constexpr int kMaxima = 2 * kValues;  // for each value its negative, itself
  static constexpr bool kHasGradient = false;

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& tokens, std::int64_t t,
                                       double* sums) const {
    sums[0] -= tokens.logprobs[t];
    sums[1] += 1;
  }

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> /*coefficients*/,
                                          double* sums, double* maxima) const {
    sums[0] += tokens.real[t];
    if (tokens.valid[t] == 0) return {};
    sums[1] += 1;
    const double values[kValues] = {-tokens.logprobs[t], tokens.terms[RowTerm::entropy][t],
                                    tokens.terms[RowTerm::vocab_min][t],
                                    tokens.terms[RowTerm::vocab_max][t]};
    for (int k = 0; k < kValues; ++k) {
      sums[2 + k] += values[k];
      raise_to(maxima[2 * k], -values[k]);
      raise_to(maxima[2 * k + 1], values[k]);
    }
    return {};
  }
};

}  // namespace lossgrid
