// SPDX-License-Identifier: Apache-2.0
// The losses of a pair of `dpo`: value and derivatives, one function for each `loss_type` of TRL
// and none that overflows before its result does. Names: a and b are the scores of the chosen and
// the rejected sequence, u = beta (a - b), e the label smoothing, s the logistic function.
#pragma once

#include <algorithm>
#include <cmath>

#include "impls/objectives/dpo_options.h"

namespace lossgrid {

/// A loss with its derivatives by the two scores.
struct DpoPairLoss {
  double value = 0;
  double by_chosen = 0;
  double by_rejected = 0;
};

/// A function of one number with its derivative.
struct ValueAndSlope {
  double value = 0;
  double slope = 0;
};

/// Returns 1 / (1 + exp(-x)), without overflow.
inline double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

/// Returns -log s(x), without overflow.
inline double negative_log_sigmoid(double x) {
  return std::max(-x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

/// Returns s'(x) = s(x) s(-x).
inline double sigmoid_slope(double x) {
  return sigmoid(x) * sigmoid(-x);
}

/// `sigmoid` (R. Rafailov et al., "Direct Preference Optimization", 2023); with e > 0 cDPO
/// (E. Mitchell, 2023).
inline ValueAndSlope sigmoid_loss(double u, double e) {
  return {(1 - e) * negative_log_sigmoid(u) + e * negative_log_sigmoid(-u),
          -(1 - e) * sigmoid(-u) + e * sigmoid(u)};
}

/// `robust`: the sigmoid loss without the bias of labels that are flipped with probability e
/// (S. R. Chowdhury et al., "Provably Robust DPO", 2024).
inline ValueAndSlope robust_loss(double u, double e) {
  return {((1 - e) * negative_log_sigmoid(u) - e * negative_log_sigmoid(-u)) / (1 - 2 * e),
          (-(1 - e) * sigmoid(-u) - e * sigmoid(u)) / (1 - 2 * e)};
}

/// `hinge` (SLiC, Y. Zhao et al., 2023). At the kink it has no gradient.
inline ValueAndSlope hinge_loss(double u) {
  return {std::max(0.0, 1 - u), u < 1 ? -1.0 : 0.0};
}

/// `exo_pair`: KL of (s(u), s(-u)) from (1 - e, e) (H. Ji et al., "Efficient Exact Optimization",
/// 2024, equation 16).
inline ValueAndSlope exo_pair_loss(double u, double e) {
  const double log_p = std::log1p(-e);
  const double log_q = std::log(e);
  return {sigmoid(u) * (-negative_log_sigmoid(u) - log_p) +
              sigmoid(-u) * (-negative_log_sigmoid(-u) - log_q),
          sigmoid_slope(u) * (u - log_p + log_q)};
}

/// `discopop`: (1 - m) -log s(u) + m exp(-u) with m = s(u / tau), which has a gradient of its own
/// (C. Lu et al., "Discovering Preference Optimization Algorithms", 2024, equation 5).
inline ValueAndSlope discopop_loss(double u, double tau) {
  const double rest = sigmoid(-u / tau);  // 1 - m
  // m exp(-u), of which either factor may be out of range.
  const double exponential =
      u >= 0 ? sigmoid(u / tau) * std::exp(-u) : std::exp(u / tau - u) / (1 + std::exp(u / tau));
  const double logistic = negative_log_sigmoid(u);
  return {rest * logistic + exponential,
          -rest * sigmoid(-u) - exponential +
              (rest * exponential - sigmoid_slope(u / tau) * logistic) / tau};
}

/// `ipo` (M. G. Azar et al., 2023, equation 17), of scores by token or of sums.
inline DpoPairLoss ipo_loss(double a, double b, double beta) {
  const double distance = a - b - 1 / (2 * beta);
  return {distance * distance, 2 * distance, -2 * distance};
}

/// `nca_pair` (H. Chen et al., "Noise Contrastive Alignment", 2024).
inline DpoPairLoss nca_pair_loss(double a, double b, double beta) {
  const double x = beta * a;
  const double y = beta * b;
  return {negative_log_sigmoid(x) + 0.5 * negative_log_sigmoid(-x) + 0.5 * negative_log_sigmoid(-y),
          beta * (-sigmoid(-x) + 0.5 * sigmoid(x)), beta * 0.5 * sigmoid(y)};
}

/// `bco_pair` (S. Jung et al., "Binary Classifier Optimization", 2024), without a running shift of
/// rewards.
inline DpoPairLoss bco_pair_loss(double a, double b, double beta) {
  const double x = beta * a;
  const double y = beta * b;
  return {negative_log_sigmoid(x) + negative_log_sigmoid(-y), -beta * sigmoid(-x),
          beta * sigmoid(y)};
}

/// `sppo_hard` (Y. Wu et al., "Self-Play Preference Optimization", 2024), with probabilities 1 and
/// 0 of winner and loser.
inline DpoPairLoss sppo_hard_loss(double a, double b, double beta) {
  const double of_winner = a - 1 / (2 * beta);
  const double of_loser = b + 1 / (2 * beta);
  return {of_winner * of_winner + of_loser * of_loser, 2 * of_winner, 2 * of_loser};
}

/// `apo_zero` (K. D'Oosterlinck et al., "Anchored Preference Optimization", 2024, equation 7).
inline DpoPairLoss apo_zero_loss(double a, double b, double beta) {
  const double x = beta * a;
  const double y = beta * b;
  return {sigmoid(-x) + sigmoid(y), -beta * sigmoid_slope(x), beta * sigmoid_slope(y)};
}

/// `apo_down`, equation 8 there.
inline DpoPairLoss apo_down_loss(double a, double b, double beta) {
  const double x = beta * a;
  const double u = beta * (a - b);
  return {sigmoid(x) + sigmoid(-u), beta * (sigmoid_slope(x) - sigmoid_slope(u)),
          beta * sigmoid_slope(u)};
}

/// Returns a loss of u as one of the scores.
inline DpoPairLoss by_scores(const ValueAndSlope& loss, double beta) {
  return {loss.value, beta * loss.slope, -beta * loss.slope};
}

/// Returns the loss of a pair. `aot` and `aot_unpaired`: of two numbers that are of the same rank.
inline DpoPairLoss dpo_pair_loss(const DpoOptions& options, double a, double b) {
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

/// Largest exponent of an alpha divergence, of TRL's float32.
inline constexpr double kLargestAlphaExponent = 80;

/// Returns the score of a sequence, the derivative of f at the ratio of probabilities: of its
/// logarithm x (C. Wang et al., "Beyond Reverse KL", 2023).
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
