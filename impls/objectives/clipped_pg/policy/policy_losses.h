// SPDX-License-Identifier: Apache-2.0
// The policy losses of `clipped_pg` for one token, with derivatives by hand, on any real type, for
// the processor and for GPUs: their pieces (PolicyLossFormulas), from which ClippedPgFormulas
// derives, and policy_term, the one place that chooses among them. With x the log-probability of a
// token, p the previous one, d = x - p and A the advantage, the loss of a token is
//
//   ppo       max(-A e^d, -A clip(e^d)), at most -A c for A < 0 with a dual clip  (Schulman et al.,
//             2017; Ye et al., 2020)
//   clip_cov  the same, and some tokens have no policy term (clipped_pg_selection.h)
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
// after NeMo-RL, verl 0.9.1, SkyRL 0.3.0 for dppo_binary and TRL 1.16 for vespo. The larger of two
// equal numbers takes half of its gradient from each, as in automatic differentiation.
#pragma once

#include <algorithm>
#include <cmath>

#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/clipped_pg_columns.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_token.h"
#include "impls/objectives/clipped_pg/ratio/ratio_formulas.h"
#include "impls/objectives/clipped_pg/slope.h"

namespace lossgrid {

struct PolicyLossFormulas {
  /// d max(a, b) / d a. Of min(a, b) it is larger_share(b, a).
  template <typename Real>
  LOSSGRID_KERNEL static Real larger_share(Real a, Real b) {
    return a > b ? Real(1) : a < b ? Real(0) : Real(0.5);
  }

  /// True if the dual clip bounds the loss of a token with this advantage.
  template <typename Real>
  LOSSGRID_KERNEL static bool dual_clip_applies(Real advantage) {
    return advantage < 0;
  }

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

  /// d loss / d entropy of a token that has the whole share: the loss has - coefficient H.
  template <typename Real>
  LOSSGRID_KERNEL static Real entropy_slope(Real coefficient) {
    return -coefficient;
  }
};

/// l = -A gate(rho); slope by rho.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Slope<Real> gated(Real advantage, Real rho, const ClippedPgOptions& options) {
  const Slope<Real> gate = Formulas::sapo_gate(Formulas::sapo_temperature(advantage, options), rho);
  return {-advantage * gate.value, -advantage * gate.slope};
}

/// l = max(-A rho, -A rho_c), for a dual clip with A < 0 at most -A c; slope by rho. `clipped` is
/// rho_c with its slope. -A rho without clip bounds.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Slope<Real> surrogate(Real advantage, Real rho, Slope<Real> clipped,
                                      const ClippedPgOptions& options) {
  const Real free = -advantage * rho;
  if (!Formulas::has_clip_bounds(options)) return {free, -advantage};
  const Real bound = -advantage * clipped.value;
  Slope<Real> loss{std::max(free, bound),
                   -advantage * (Formulas::larger_share(free, bound) +
                                 Formulas::larger_share(bound, free) * clipped.slope)};
  if (options.ratio_clip_c && Formulas::dual_clip_applies(advantage)) {
    const Real largest = -advantage * static_cast<Real>(*options.ratio_clip_c);
    loss.slope *= Formulas::larger_share(largest, loss.value);
    loss.value = std::min(loss.value, largest);
  }
  return loss;
}

/// Returns the log-probability that the ratio of a token is taken to.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Real ratio_anchor(const ClippedPgOptions& options, const PolicyToken<Real>& token) {
  return options.is_binary_dppo() ? Formulas::binary_dppo_anchor(token.p, token.q) : token.p;
}

/// Returns `factor` times the policy loss of a token; slope by x.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Slope<Real> policy_term(const ClippedPgOptions& options,
                                        const ClippedPgColumns& columns,
                                        const PolicyToken<Real>& token,
                                        const TokenRatio<Real>& ratio,
                                        const SequenceCoefficients<Real>& sequence, Real factor) {
  const Real advantage = token.advantage;
  const Real rho = ratio.free.value;
  // -A w x with a weight w that has no gradient.
  const auto weighted = [&](Real weight) {
    const Real slope = -advantage * weight * factor;
    return Slope<Real>{slope * token.x, slope};
  };
  const auto by_ratio = [&](const Slope<Real>& loss) {
    return Slope<Real>{factor * loss.value, factor * loss.slope * ratio.free.slope};
  };
  const auto has_diverged = [&](Real from) {
    return Formulas::has_diverged(advantage, token.x, from, options);
  };
  if (options.use_cispo) return weighted(ratio.clipped.value);
  switch (options.policy_loss) {
    case PolicyLoss::ppo:
    case PolicyLoss::clip_cov:
      return by_ratio(surrogate<Formulas>(advantage, rho, ratio.clipped, options));
    case PolicyLoss::sapo:
      return by_ratio(gated<Formulas>(advantage, rho, options));
    case PolicyLoss::geo_mean: {
      const Real mean =
          Formulas::geo_mean_advantage(advantage, sequence.at(columns.mean_advantage));
      return {factor * -mean * rho, factor * -mean * ratio.free.slope};
    }
    case PolicyLoss::dro: {
      const Slope<Real> loss = Formulas::dro(advantage, token.x, token.p, options);
      return {factor * loss.value, factor * loss.slope};
    }
    case PolicyLoss::dppo_tv:
    case PolicyLoss::dppo_kl:
      return weighted(has_diverged(token.p) ? Real(0) : Formulas::dppo_weight(rho, options));
    case PolicyLoss::vespo:
      return weighted(sequence.at(advantage >= 0 ? columns.gate : columns.negative_gate));
    case PolicyLoss::kl_cov: {
      Slope<Real> term = by_ratio(surrogate<Formulas>(advantage, rho, ratio.clipped, options));
      if (!token.is_selected) return term;
      const Slope<Real> penalty = Formulas::kl_cov_penalty(token.x, token.p, options);
      term.value += factor * penalty.value;
      term.slope += factor * penalty.slope;
      return term;
    }
    case PolicyLoss::dppo_binary_tv:
    case PolicyLoss::dppo_binary_kl: {
      const Real weight = has_diverged(token.anchor) ? Real(0) : -advantage * factor;
      return {weight * rho, weight * ratio.free.slope};
    }
  }
  return {};
}

/// Sets the numbers of a sequence that policy losses of its tokens depend on, by its sums.
/// `per_token`: 1 / its valid tokens. On the host.
template <class Formulas, typename Real>
void set_policy_coefficients(const ClippedPgOptions& options, const ClippedPgColumns& columns,
                             const SequenceRow<Real>& row, Real per_token) {
  const Real log = row.sum(columns.log_ratio);
  if (options.is_geo_mean()) {
    const Real advantages =
        row.sum(columns.positive_advantages) + row.sum(columns.negative_advantages);
    row.set(columns.ratio, Formulas::ratio(log * per_token));
    row.set(columns.mean_advantage, advantages * per_token);
  }
  if (options.is_vespo()) {
    const auto gate = [&](double k, double lambda) {
      return Formulas::vespo_gate(log, log * per_token, static_cast<Real>(k),
                                  static_cast<Real>(lambda));
    };
    row.set(columns.gate, gate(options.vespo_k_pos, options.vespo_lambda_pos));
    row.set(columns.negative_gate, gate(options.vespo_k_neg, options.vespo_lambda_neg));
  }
}

}  // namespace lossgrid
