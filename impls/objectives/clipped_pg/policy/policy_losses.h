// SPDX-License-Identifier: Apache-2.0
// The pieces of the policy losses of `clipped_pg` beside PPO's, with derivatives by hand, on any
// real type, for the processor and for GPUs; ClippedPgFormulas derives from them. With x the
// log-probability of a token, p the previous one, d = x - p and A the advantage, the loss of a
// token is
//
//   sapo      -A (4 / tau) sigmoid(tau (e^d - 1))  (Gao et al., 2025)
//   geo_mean  -(mean of A) e^(mean of d'), both over a sequence; d' is min(d, h) for A > 0,
//             max(d, -l) for A < 0 and 0 for A = 0  (GMPO, arXiv:2507.20673)
//   dro       -A x + beta d^2 / 2
//   dppo_tv, dppo_kl
//             -A min(e^d, c) x, where the weight min(e^d, c) has no gradient and is 0 for a token
//             that has moved too far from the previous policy  (DPPO, arXiv:2602.04879)
//   dppo_binary_tv, dppo_binary_kl
//             -A e^(x - q), q the log-probability of the generating policy, 0 for a token that has
//             moved too far from that policy
//   kl_cov    -A e^d, and c |d| more for tokens that are selected (clipped_pg_selection.h)
//   vespo     -A phi x, where phi = e^(lambda + k s - lambda e^s) has no gradient, s is the sum of
//             d over a sequence, and k and lambda depend on the sign of A
//
// after verl 0.9.1, SkyRL 0.3.0 for dppo_binary and TRL 1.16 for vespo.
#pragma once

#include <algorithm>
#include <cmath>

#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"

namespace lossgrid {

/// A number and its derivative.
template <typename Real>
struct Slope {
  Real value = 0;
  Real slope = 0;
};

struct PolicyLossFormulas {
  /// Temperature of sapo for a token with this advantage.
  template <typename Real>
  LOSSGRID_KERNEL static Real sapo_temperature(Real advantage, const ClippedPgOptions& options) {
    return static_cast<Real>(advantage > 0 ? options.tau_pos : options.tau_neg);
  }

  /// Gate of sapo, (4 / tau) sigmoid(tau (rho - 1)); slope by rho.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> sapo_gate(Real tau, Real rho) {
    const Real a = tau * (rho - 1);
    const Real small = std::exp(-std::abs(a));
    const Real sigmoid = (a > 0 ? Real(1) : small) / (1 + small);
    return {4 / tau * sigmoid, 4 * small / ((1 + small) * (1 + small))};
  }

  /// d' of geo_mean; slope by d. A clamp passes the gradient on its closed interval.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> one_sided_log(Real d, Real advantage,
                                                   const ClippedPgOptions& options) {
    const auto high = static_cast<Real>(options.ratio_clip_max);
    const auto low = static_cast<Real>(-options.ratio_clip_min);
    if (advantage > 0) return d <= high ? Slope<Real>{d, Real(1)} : Slope<Real>{high, Real(0)};
    if (advantage < 0) return d >= low ? Slope<Real>{d, Real(1)} : Slope<Real>{low, Real(0)};
    return {Real(0), Real(0)};
  }

  /// Advantage of a token in geo_mean, by its own and the mean one of its sequence.
  template <typename Real>
  LOSSGRID_KERNEL static Real geo_mean_advantage(Real /*own*/, Real mean) {
    return mean;
  }

  /// Loss of a token in dro; slope by x.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> dro(Real advantage, Real x, Real p,
                                         const ClippedPgOptions& options) {
    const auto beta = static_cast<Real>(*options.dro_beta);
    const Real d = x - p;
    return {beta / 2 * d * d - advantage * x, beta * d - advantage};
  }

  /// False for a loss of ratios without clip bounds.
  LOSSGRID_KERNEL static bool has_clip_bounds(const ClippedPgOptions& options) {
    return !options.is_kl_cov();
  }

  /// Penalty of a selected token in kl_cov; slope by x.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> kl_cov_penalty(Real x, Real p,
                                                    const ClippedPgOptions& options) {
    const auto c = static_cast<Real>(options.ppo_kl_coef);
    return {c * std::abs(x - p), x > p ? c : x < p ? -c : Real(0)};
  }

  /// KL of the previous over the current policy, each with the token and all others as its two
  /// outcomes, by probabilities and their logarithms; 1e-8 as in verl.
  template <typename Real>
  LOSSGRID_KERNEL static Real binary_kl(Real x, Real p) {
    const Real current = std::min(std::exp(x), Real(1));
    const Real previous = std::min(std::exp(p), Real(1));
    const auto little = static_cast<Real>(1e-8);
    return previous * (p - x) +
           (1 - previous) * std::log((1 - previous + little) / (1 - current + little));
  }

  /// The log-probability that the ratio of dppo_binary is taken to, by those of the previous and
  /// the generating policy.
  template <typename Real>
  LOSSGRID_KERNEL static Real binary_dppo_anchor(Real /*p*/, Real q) {
    return q;
  }

  /// True if a token of dppo has moved so far from the policy p, and in the direction of its
  /// advantage, that it loses its policy term.
  template <typename Real>
  LOSSGRID_KERNEL static bool has_diverged(Real advantage, Real x, Real p,
                                           const ClippedPgOptions& options) {
    const auto high = static_cast<Real>(options.ratio_clip_max);
    const auto low = static_cast<Real>(options.ratio_clip_min);
    const PolicyLoss loss = options.policy_loss;
    if (loss == PolicyLoss::dppo_tv || loss == PolicyLoss::dppo_binary_tv) {
      const Real moved = std::exp(x) - std::exp(p);
      return advantage > 0 ? moved > high : moved < -low;
    }
    if (advantage > 0) return x > p && binary_kl(x, p) > high;
    return x < p && binary_kl(x, p) > low;
  }

  /// Weight of a token in dppo, without gradient.
  template <typename Real>
  LOSSGRID_KERNEL static Real dppo_weight(Real rho, const ClippedPgOptions& options) {
    return options.ratio_clip_c ? std::min(rho, static_cast<Real>(*options.ratio_clip_c)) : rho;
  }

  /// phi of vespo by the sum of d over a sequence, whose mean over tokens is `mean`, without
  /// gradient. On the host.
  template <typename Real>
  static Real vespo_gate(Real sum, Real /*mean*/, Real k, Real lambda) {
    const Real s = std::clamp(sum, std::log(static_cast<Real>(1e-8)), Real(20));
    return std::exp(lambda + k * s - lambda * std::exp(s));
  }
};

}  // namespace lossgrid
