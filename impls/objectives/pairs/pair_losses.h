// SPDX-License-Identifier: Apache-2.0
// Losses of a preference pair: value and derivatives, one function for each `loss_type` of TRL. No
// function overflows before its result does. Names: a and b are the rewards of the chosen and the
// rejected sequence, u = beta (a - b), e the label smoothing, s the logistic function.
#pragma once

#include <algorithm>
#include <cmath>

#include "impls/objectives/pairs/pair_steps.h"

namespace lossgrid {

/// Value of a function of one number with its derivative.
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

/// `robust`: the sigmoid loss without the bias from labels that are flipped with probability e (S.
/// R. Chowdhury et al., "Provably Robust DPO", 2024).
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

/// `ipo` (M. G. Azar et al., 2023, equation 17), for scores by token or for sums.
inline PairLoss ipo_loss(double a, double b, double beta) {
  const double distance = a - b - 1 / (2 * beta);
  return {distance * distance, 2 * distance, -2 * distance};
}

/// `nca_pair` (H. Chen et al., "Noise Contrastive Alignment", 2024).
inline PairLoss nca_pair_loss(double a, double b, double beta) {
  const double x = beta * a;
  const double y = beta * b;
  return {negative_log_sigmoid(x) + 0.5 * negative_log_sigmoid(-x) + 0.5 * negative_log_sigmoid(-y),
          beta * (-sigmoid(-x) + 0.5 * sigmoid(x)), beta * 0.5 * sigmoid(y)};
}

/// `bco_pair` (S. Jung et al., "Binary Classifier Optimization", 2024), without a running shift of
/// rewards.
inline PairLoss bco_pair_loss(double a, double b, double beta) {
  const double x = beta * a;
  const double y = beta * b;
  return {negative_log_sigmoid(x) + negative_log_sigmoid(-y), -beta * sigmoid(-x),
          beta * sigmoid(y)};
}

/// `sppo_hard` (Y. Wu et al., "Self-Play Preference Optimization", 2024), with probabilities 1 and
/// 0 of winner and loser.
inline PairLoss sppo_hard_loss(double a, double b, double beta) {
  const double of_winner = a - 1 / (2 * beta);
  const double of_loser = b + 1 / (2 * beta);
  return {of_winner * of_winner + of_loser * of_loser, 2 * of_winner, 2 * of_loser};
}

/// `apo_zero` (K. D'Oosterlinck et al., "Anchored Preference Optimization", 2024, equation 7).
inline PairLoss apo_zero_loss(double a, double b, double beta) {
  const double x = beta * a;
  const double y = beta * b;
  return {sigmoid(-x) + sigmoid(y), -beta * sigmoid_slope(x), beta * sigmoid_slope(y)};
}

/// `apo_down`, equation 8 there.
inline PairLoss apo_down_loss(double a, double b, double beta) {
  const double x = beta * a;
  const double u = beta * (a - b);
  return {sigmoid(x) + sigmoid(-u), beta * (sigmoid_slope(x) - sigmoid_slope(u)),
          beta * sigmoid_slope(u)};
}

/// Returns a derivative by the chain rule; 0 for a constant loss, even where the score's slope is
/// infinite.
inline double chained(double by_score, double score_slope) {
  return by_score == 0 ? 0 : by_score * score_slope;
}

/// Returns a loss of u as a loss of both rewards.
inline PairLoss by_scores(const ValueAndSlope& loss, double beta) {
  return {loss.value, beta * loss.slope, -beta * loss.slope};
}

}  // namespace lossgrid
