// SPDX-License-Identifier: Apache-2.0
// NllTerms: the terms of one token (harness/loss/terms_kernels.h) of `nll`.
#pragma once

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

struct NllTerms {
  static constexpr int kSequenceSums = 1;  // valid tokens
  static constexpr int kSums = 2;          // loss, valid tokens
  static constexpr int kMaxima = 0;
  static constexpr bool kHasGradient = true;

  bool token_level;
  double token_weight;  // else the coefficient of its sequence

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& /*tokens*/, std::int64_t /*t*/,
                                       double* sums) const {
    sums[0] += 1;
  }

  LOSSGRID_KERNEL float add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                  SequenceTable<const double> coefficients, double* sums,
                                  double* /*maxima*/) const {
    if (tokens.valid[t] == 0) return 0;
    const double weight = token_level ? token_weight : coefficients.at(tokens.sequence[t], 0);
    sums[0] -= weight * tokens.logprobs[t];
    sums[1] += 1;
    return -static_cast<float>(weight);
  }
};

}  // namespace lossgrid
