// SPDX-License-Identifier: Apache-2.0
// OnPolicyDistillTerms: the terms of one token (harness/loss/terms_kernels.h) of
// `on_policy_distill`. With d the log-probability of the student less that of the teacher, the loss
// of a token is an estimate of KL(student, teacher), or a gradient alone:
//   abs |d|,  k2 d^2 / 2,  k3 e^-d - 1 + d   clamped, without a gradient where it is
//   score  the clamped d, held constant, times the student's log-probability
#pragma once

#include <cmath>
#include <limits>

#include "harness/device/kernel/portable.h"
#include "harness/loss/objective_tokens.h"

namespace lossgrid {

enum class SampledLoss { abs, k2, k3, score };

struct OnPolicyDistillOptions {
  SampledLoss loss_mode = SampledLoss::k3;
  double loss_max_clamp = std::numeric_limits<double>::infinity();
};

struct OnPolicyDistillTerms {
  static constexpr int kSequenceSums = 0;
  static constexpr int kSums = 2;  // loss, valid tokens
  static constexpr int kMaxima = 0;
  static constexpr bool kHasGradient = true;

  OnPolicyDistillOptions options;
  double token_weight;

  LOSSGRID_KERNEL void add_to_sequence(const ObjectiveTokens& /*tokens*/, std::int64_t /*t*/,
                                       double* /*sums*/) const {}

  LOSSGRID_KERNEL TokenGradient add_token(const ObjectiveTokens& tokens, std::int64_t t,
                                          SequenceTable<const double> /*coefficients*/,
                                          double* sums, double* /*maxima*/) const {
    if (tokens.valid[t] == 0) return {};
    const double logprob = tokens.logprobs[t];
    const LossOfToken of_token =
        loss_of(logprob, logprob - tokens.input(TokenInput::teacher_logprobs)[t]);
    sums[0] += token_weight * of_token.value;
    sums[1] += 1;
    return {.logprob = as_gradient(token_weight * of_token.slope)};
  }

 private:
  struct LossOfToken {
    double value;
    double slope;  // derivative by the log-probability of the student
  };

  LOSSGRID_KERNEL LossOfToken loss_of(double logprob, double d) const {
    const double most = options.loss_max_clamp;
    if (options.loss_mode == SampledLoss::score) {
      const double weight = d < -most ? -most : d > most ? most : d;
      return {weight * logprob, weight};
    }
    LossOfToken loss{};
    if (options.loss_mode == SampledLoss::abs) {
      loss = d < 0 ? LossOfToken{-d, -1} : LossOfToken{d, d > 0 ? 1.0 : 0.0};
    } else if (options.loss_mode == SampledLoss::k2) {
      loss = {d * d / 2, d};
    } else {
      const double less_one = std::expm1(-d);
      loss = {less_one + d, -less_one};
    }
    return loss.value > most ? LossOfToken{most, 0} : loss;
  }
};

}  // namespace lossgrid
