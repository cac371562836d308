// SPDX-License-Identifier: Apache-2.0
// NllTerms: the terms of one token (harness/loss/terms_kernels.h) of `nll`.
#pragma once

#include <cmath>

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

struct NllOptions {
  bool token_level_loss = true;        // false: mean over sequences of their token means
  double label_smoothing = 0;          // e: share of the uniform distribution in the labels
  double z_loss_coefficient = 0;       // c of c logsumexp^2
  bool weighs_by_probability = false;  // Dynamic Fine-Tuning
};

struct NllTerms {
  static constexpr int kSequenceSums = 1;  // valid tokens
  static constexpr int kSums = 2;          // loss, valid tokens
  static constexpr int kMaxima = 0;
  static constexpr bool kHasGradient = true;

  NllOptions options;
  double token_weight;  // with token_level_loss; else the weight is the coefficient of its sequence

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& /*tokens*/, std::int64_t /*t*/,
                                       double* sums) const {
    sums[0] += 1;
  }

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> coefficients, double* sums,
                                          double* /*maxima*/) const {
    if (tokens.valid[t] == 0) return {};
    const double weight =
        options.token_level_loss ? token_weight : coefficients.at(tokens.sequence[t], 0);
    const double of_label = (1 - options.label_smoothing) * weight;
    const double probability =
        options.weighs_by_probability ? std::exp(static_cast<double>(tokens.logprobs[t])) : 1.0;
    TokenGradient gradient{.logprob = -static_cast<float>(of_label * probability)};
    sums[0] -= of_label * probability * tokens.logprobs[t];
    sums[1] += 1;
    if (options.label_smoothing != 0) {
      const double of_others = options.label_smoothing * weight;
      sums[0] -= of_others * tokens.terms[RowTerm::mean_logprob][t];
      gradient.terms[RowTerm::mean_logprob] = -static_cast<float>(of_others);
    }
    if (options.z_loss_coefficient != 0) {
      const double logsumexp = tokens.terms[RowTerm::logsumexp][t];
      const double by_square = options.z_loss_coefficient * weight;
      sums[0] += by_square * logsumexp * logsumexp;
      gradient.terms[RowTerm::logsumexp] = static_cast<float>(2 * by_square * logsumexp);
    }
    return gradient;
  }
};

}  // namespace lossgrid
