// SPDX-License-Identifier: Apache-2.0
// DistillTerms: the terms of one token (harness/loss/terms_kernels.h) of `distill`.
#pragma once

#include <limits>

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

struct DistillTerms {
  static constexpr int kSequenceSums = 0;
  static constexpr int kSums = 2;  // loss, valid tokens
  static constexpr int kMaxima = 0;
  static constexpr bool kHasGradient = true;

  double token_weight;
  // Bounds of the loss of a token; outside of the bounds it has no gradient.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& /*tokens*/, std::int64_t /*t*/,
                                       double* /*sums*/) const {}

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> /*coefficients*/,
                                          double* sums, double* /*maxima*/) const {
    if (tokens.valid[t] == 0) return {};
    const double loss = tokens.terms[RowTerm::divergence][t];
    sums[1] += 1;
    if (loss < least || loss > most) {
      sums[0] += token_weight * (loss < least ? least : most);
      return {};
    }
    sums[0] += token_weight * loss;
    TokenGradient gradient;
    gradient.terms[RowTerm::divergence] = static_cast<float>(token_weight);
    return gradient;
  }
};

}  // namespace lossgrid
