// SPDX-License-Identifier: Apache-2.0
// ScoreTerms: the terms of one token (harness/loss/terms_kernels.h) of objectives of the scores of
// sequences. A sequence has one valid row, whose number is its score, or no valid row.
#pragma once

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

struct ScoreTerms {
  enum SequenceSum { kScore, kRows };

  static constexpr int kSequenceSums = 2;
  static constexpr int kCoefficients = 1;  // d loss / d score
  static constexpr int kSums = 0;
  static constexpr int kMaxima = 0;
  static constexpr bool kHasGradient = true;

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& tokens, std::int64_t t,
                                       double* sums) const {
    sums[kScore] += tokens.terms[RowTerm::logsumexp][t];
    sums[kRows] += 1;
  }

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> coefficients,
                                          double* /*sums*/, double* /*maxima*/) const {
    TokenGradient gradient;
    if (tokens.valid[t] == 0) return gradient;
    gradient.terms[RowTerm::logsumexp] = as_gradient(coefficients.at(tokens.sequence[t], 0));
    return gradient;
  }
};

}  // namespace lossgrid
