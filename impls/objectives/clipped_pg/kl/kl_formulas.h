// SPDX-License-Identifier: Apache-2.0
// The KL of `clipped_pg` for one token, with derivatives by hand, on any real type, for the
// processor and for GPUs: its pieces (KlFormulas), from which ClippedPgFormulas derives, the KL
// penalty, and the distances between the policies that are metrics.
//
// Sources: KL estimators (Schulman, 2020), NeMo-RL `calculate_kl`.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_token.h"
#include "impls/objectives/clipped_pg/clipped_pg_totals.h"
#include "impls/objectives/clipped_pg/slope.h"
#include "impls/objectives/clipped_pg/weights/weight_formulas.h"

namespace lossgrid {

struct KlFormulas {
  /// Share of a token in the KL term; `share`: in the loss, `token_share`: in a mean over tokens.
  template <typename Real>
  LOSSGRID_KERNEL static Real kl_share(Real share, Real /*token_share*/) {
    return share;
  }

  /// KL by r = reference - current; slope by r.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> kl(KlType type, Real r) {
    if (type == KlType::k1) return {-r, Real(-1)};
    if (type == KlType::k2) return {r * r / 2, r};
    if (type == KlType::abs) return {std::abs(r), Real(r > 0 ? 1 : r < 0 ? -1 : 0)};
    const Real growth = std::expm1(r);
    return {growth - r, growth};
  }

  /// Weight of a token's KL, slope by x: exp(x - x without gradient), whose slope makes the
  /// gradient that of the expectation over tokens drawn from the policy (score function), or the
  /// importance weight exp(x - q) of tokens that another policy has drawn.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> kl_weight(Real x, Real q, const ClippedPgOptions& options) {
    if (!options.use_on_policy_kl_approximation) return {Real(1), Real(1)};
    const Real weight = WeightFormulas::finite_exp(x - q);
    return {weight, weight};
  }

  /// The ratio x / prev as a weight of the KL; slope by x.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> kl_ratio(Real log_ratio) {
    const Real rho = std::exp(log_ratio);
    return {rho, rho};
  }

  /// d KL / d x of straight_through and importance, x - reference times a weight.
  template <typename Real>
  LOSSGRID_KERNEL static Real kl_replaced_slope(Real x, Real p, Real f, KlGradient kind) {
    const Real weight =
        kind == KlGradient::importance ? std::min(std::exp(x - p), Real(10)) : Real(1);
    return weight * (x - f);
  }
};

/// The weight of a token's KL, slope by x, for current x, previous p and generation q.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Slope<Real> kl_factor(Real x, Real p, Real q, const ClippedPgOptions& options) {
  switch (options.kl_gradient) {
    case KlGradient::score:
      return Formulas::kl_weight(x, q, options);
    case KlGradient::ratio:
      return Formulas::kl_ratio(x - p);
    default:
      return {Real(1), Real(0)};
  }
}

/// The KL penalty of a token without its factor, for current x, previous p, generation q and
/// reference f; slope by x.
template <class Formulas, typename Real>
LOSSGRID_KERNEL Slope<Real> kl_penalty(Real x, Real p, Real q, Real f,
                                       const ClippedPgOptions& options) {
  Real r = f - x;
  Real r_slope = -1;  // by x
  Slope<Real> weight = kl_factor<Formulas>(x, p, q, options);
  if (options.kl_input_clamp_value) {
    const auto bound = static_cast<Real>(*options.kl_input_clamp_value);
    if (std::abs(r) > bound) {
      r = std::copysign(bound, r);
      r_slope = 0;
      weight.slope = 0;
    }
  }
  const Slope<Real> kl = Formulas::kl(options.reference_policy_kl_type, r);
  Slope<Real> penalty{weight.value * kl.value,
                      weight.slope * kl.value + weight.value * kl.slope * r_slope};
  if (options.kl_output_clamp_value) {
    const auto bound = static_cast<Real>(*options.kl_output_clamp_value);
    if (std::abs(penalty.value) > bound) penalty = {std::copysign(bound, penalty.value), Real(0)};
  }
  const KlGradient kind = options.kl_gradient;
  if (kind == KlGradient::straight_through || kind == KlGradient::importance) {
    penalty.slope = Formulas::kl_replaced_slope(x, p, f, kind);
  }
  return penalty;
}

/// Jensen-Shannon divergence of previous p and generation q, by the k3 estimator against their
/// mixture u = log((e^p + e^q) / 2): p - u = ln 2 + log sigmoid(p - q).
template <typename Real>
LOSSGRID_KERNEL Real js_divergence(Real p, Real q) {
  const auto from_mixture = [](Real difference) {
    const Real log_sigmoid =
        std::min(difference, Real(0)) - std::log1p(std::exp(-std::abs(difference)));
    const Real d = std::numbers::ln2_v<Real> + log_sigmoid;
    return std::expm1(d) - d;
  };
  return (from_mixture(p - q) + from_mixture(q - p)) / 2;
}

/// Adds the distances between the policies of a token to the totals.
template <class Formulas, typename Real>
LOSSGRID_KERNEL void add_policy_distances(const ClippedPgOptions& options,
                                          const PolicyToken<Real>& token, double* sums) {
  using T = ClippedPgTotals;
  if (options.zero_weights_nonfinite() && !Formulas::is_finite(token.q)) return;
  const KlType type = options.reference_policy_kl_type;
  const Real gap = token.log_weight();
  sums[T::kMultProbError] += std::exp(std::abs(gap));
  sums[T::kGenKl] += Formulas::kl(type, gap).value;
  sums[T::kPolicyKl] += Formulas::kl(type, -gap).value;
  sums[T::kJsDivergence] += js_divergence(token.p, token.q);
  sums[T::kApproxEntropy] -= std::exp(token.x - token.q) * token.x;
}

}  // namespace lossgrid
