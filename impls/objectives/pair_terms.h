// SPDX-License-Identifier: Apache-2.0
// PairTerms: the terms of one token (harness/loss/terms_kernels.h) of objectives of preference
// pairs.
#pragma once

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

struct PairTerms {
  enum SequenceSum { kLogRatio, kLogprob, kTokens };  // the first one of lp - ref

  static constexpr int kSequenceSums = 3;
  static constexpr int kSums = 0;
  static constexpr int kMaxima = 0;
  static constexpr bool kHasGradient = true;

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& tokens, std::int64_t t,
                                       double* sums) const {
    const double logprob = tokens.logprobs[t];
    sums[kLogRatio] +=
        has_reference ? logprob - tokens.input(TokenInput::reference_policy_logprobs)[t] : logprob;
    sums[kLogprob] += logprob;
    sums[kTokens] += 1;
  }

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> coefficients,
                                          double* /*sums*/, double* /*maxima*/) const {
    if (tokens.valid[t] == 0) return {};
    return {.logprob = static_cast<float>(coefficients.at(tokens.sequence[t], 0))};
  }

  bool has_reference = true;
};

}  // namespace lossgrid
