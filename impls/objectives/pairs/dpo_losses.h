// SPDX-License-Identifier: Apache-2.0
// Loss of a pair and score of a sequence by the options of `dpo`.
#pragma once

#include <algorithm>
#include <cmath>

#include "impls/objectives/pairs/dpo_options.h"
#include "impls/objectives/pairs/pair_losses.h"

namespace lossgrid {

/// Returns the loss of a pair; for `aot` and `aot_unpaired`, the loss of two numbers of the same
/// rank.
inline PairLoss dpo_pair_loss(const DpoOptions& options, double a, double b) {
  using Type = DpoLossType;
  const double beta = options.beta();
  const double e = options.label_smoothing;
  const double u = beta * (a - b);
  switch (options.loss_type) {
    case Type::robust:
      return by_scores(robust_loss(u, e), beta);
    case Type::hinge:
      return by_scores(hinge_loss(u), beta);
    case Type::ipo:
      return ipo_loss(a, b, beta);
    case Type::exo_pair:
      return by_scores(exo_pair_loss(u, e), beta);
    case Type::nca_pair:
      return nca_pair_loss(a, b, beta);
    case Type::bco_pair:
      return bco_pair_loss(a, b, beta);
    case Type::sppo_hard:
      return sppo_hard_loss(a, b, beta);
    case Type::apo_zero:
      return apo_zero_loss(a, b, beta);
    case Type::apo_down:
      return apo_down_loss(a, b, beta);
    case Type::discopop:
      return by_scores(discopop_loss(u, options.discopop_tau), beta);
    case Type::sigmoid:
    case Type::sigmoid_norm:
    case Type::aot:
    case Type::aot_unpaired:
      return by_scores(sigmoid_loss(u, e), beta);
  }
  return {};
}

/// Largest exponent of an alpha divergence, as in TRL's float32.
inline constexpr double kLargestAlphaExponent = 80;

/// Returns the score of a sequence, the derivative of f at the ratio of probabilities, from the
/// ratio's logarithm x (C. Wang et al., "Beyond Reverse KL", 2023).
inline ValueAndSlope dpo_score(const DpoOptions& options, double x) {
  switch (options.f_divergence_type) {
    case FDivergence::forward_kl:
      return {-std::expm1(-x), std::exp(-x)};
    case FDivergence::js_divergence:
      return {std::log(2.0) - negative_log_sigmoid(x), sigmoid(-x)};
    case FDivergence::alpha_divergence: {
      const double coefficient = options.alpha_exponent();
      if (coefficient == 0) return {x, 1};
      const double exponent = coefficient * x;
      const double used = std::min(exponent, kLargestAlphaExponent);
      return {std::expm1(used) / coefficient, exponent <= used ? std::exp(used) : 0};
    }
    case FDivergence::reverse_kl:
      break;
  }
  return {x, 1};
}

}  // namespace lossgrid
