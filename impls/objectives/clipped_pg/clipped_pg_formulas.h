// SPDX-License-Identifier: Apache-2.0
// The formulas of `clipped_pg` for one token, with derivatives by hand, on any real type, for the
// processor and for GPUs: first the pieces (ClippedPgFormulas), then their combinations. A wrong
// objective is a struct that derives from ClippedPgFormulas and hides one piece.
//
// Sources: NeMo-RL `ClippedPGLossFn` and `calculate_kl`; PPO (Schulman et al., 2017), dual clip (Ye
// et al., 2020), GSPO (Zheng et al., 2025), CISPO (MiniMax, 2025), KL estimators (Schulman, 2020);
// other policy losses stand in policy_losses.h. Switches follow automatic differentiation: a clamp
// passes the gradient on its closed interval, the larger of two equal numbers takes half of its
// gradient from each.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>

#include "harness/device/kernel/portable.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/policy/policy_losses.h"
#include "impls/objectives/clipped_pg/ratio/proximal_policy.h"
#include "impls/objectives/clipped_pg/selection/clipped_pg_selection.h"

namespace lossgrid {

struct ClippedPgFormulas : PolicyLossFormulas, ProximalFormulas, SelectionFormulas {
  /// Share in the loss of a token of a sequence, over groups of a group, with `tokens` valid ones.
  /// On the host.
  template <typename Real>
  static Real share(const Aggregation& aggregation, const Denominators& counts,
                    std::int64_t tokens) {
    return share_of_token<Real>(aggregation, counts, tokens);
  }

  /// Share of a token in the KL term; `share`: in the loss, `token_share`: in a mean over tokens.
  template <typename Real>
  LOSSGRID_KERNEL static Real kl_share(Real share, Real /*token_share*/) {
    return share;
  }

  /// rho of one token by x - prev, or of a sequence by the mean of it; its slope is itself.
  template <typename Real>
  LOSSGRID_KERNEL static Real ratio(Real log_ratio) {
    return std::exp(log_ratio);
  }

  /// The logarithm of a ratio within its bounds; slope by it.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> bounded_log(Real log_ratio, const ClippedPgOptions& options) {
    const auto& low = options.log_ratio_min;
    const auto& high = options.log_ratio_max;
    if (low && log_ratio < static_cast<Real>(*low)) return {static_cast<Real>(*low), Real(0)};
    if (high && log_ratio > static_cast<Real>(*high)) return {static_cast<Real>(*high), Real(0)};
    return {log_ratio, Real(1)};
  }

  /// rho within the clip bounds; slope by rho.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> clipped(Real rho, const ClippedPgOptions& options) {
    const auto low = static_cast<Real>(options.lowest_ratio());
    const auto high = static_cast<Real>(options.highest_ratio());
    return {std::clamp(rho, low, high), low <= rho && rho <= high ? Real(1) : Real(0)};
  }

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

  /// KL by r = reference - current; slope by r.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> kl(KlType type, Real r) {
    if (type == KlType::k1) return {-r, Real(-1)};
    if (type == KlType::k2) return {r * r / 2, r};
    if (type == KlType::abs) return {std::abs(r), Real(r > 0 ? 1 : r < 0 ? -1 : 0)};
    const Real growth = std::expm1(r);
    return {growth - r, growth};
  }

  /// exp(x), or 0 where that is not a finite float32.
  template <typename Real>
  LOSSGRID_KERNEL static Real finite_exp(Real x) {
    const Real result = std::exp(x);
    return result <= static_cast<Real>(std::numeric_limits<float>::max()) ? result : Real(0);
  }

  /// True for a number that is neither infinite nor NaN in float32.
  template <typename Real>
  LOSSGRID_KERNEL static bool is_finite(Real x) {
    return std::abs(x) <= static_cast<Real>(std::numeric_limits<float>::max());
  }

  /// The log weight of a token in the mean of its sequence that decides on a mask: 0 where it is
  /// not finite.
  template <typename Real>
  LOSSGRID_KERNEL static Real log_weight_in_mask(Real log_weight) {
    return is_finite(log_weight) ? log_weight : Real(0);
  }

  /// True if a token with this log weight has a part in the sums and means that reject sequences.
  template <typename Real>
  LOSSGRID_KERNEL static bool has_part(Real log_weight) {
    return is_finite(log_weight);
  }

  /// Weight of a token's KL, slope by x: exp(x - x without gradient), whose slope makes the
  /// gradient that of the expectation over tokens drawn from the policy (score function), or the
  /// importance weight exp(x - q) of tokens that another policy has drawn.
  template <typename Real>
  LOSSGRID_KERNEL static Slope<Real> kl_weight(Real x, Real q, const ClippedPgOptions& options) {
    if (!options.use_on_policy_kl_approximation) return {Real(1), Real(1)};
    const Real weight = finite_exp(x - q);
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

  /// True if an importance weight, or the mean one of a sequence, lies outside of its bounds.
  template <typename Real>
  LOSSGRID_KERNEL static bool out_of_bounds(Real weight, const ClippedPgOptions& options) {
    const auto& low = options.truncated_importance_sampling_ratio_min;
    return weight > static_cast<Real>(*options.truncated_importance_sampling_ratio) ||
           (low && weight < static_cast<Real>(*low));
  }

  /// Number by which a token with this log weight is rejected.
  template <typename Real>
  LOSSGRID_KERNEL static Real rejection_number(Real log_weight, RejectionStatistic statistic) {
    if (statistic == RejectionStatistic::k1) return log_weight;
    if (statistic == RejectionStatistic::k2) return log_weight * log_weight / 2;
    return std::expm1(log_weight) - log_weight;
  }

  /// True if this number, or a sum or mean of such ones, rejects.
  template <typename Real>
  LOSSGRID_KERNEL static bool is_rejected(Real number, const ClippedPgOptions& options) {
    const auto high = static_cast<Real>(*options.rollout_rs_threshold);
    if (options.rejection_statistic != RejectionStatistic::k1) return number > high;
    const auto& low = options.rollout_rs_threshold_min;
    return number > std::log(high) || (low && number < std::log(static_cast<Real>(*low)));
  }

  /// True if a token may take its sequence with it, also one that is rejected by itself: vetoes
  /// come before all other masks.
  LOSSGRID_KERNEL static bool may_veto(bool /*is_kept*/, const ClippedPgOptions& /*options*/) {
    return true;
  }

  /// True if a token with this log weight takes its sequence with it.
  template <typename Real>
  LOSSGRID_KERNEL static bool vetoes(Real log_weight, const ClippedPgOptions& options) {
    const auto& low = options.veto_ratio_min;
    const auto& high = options.veto_ratio_max;
    return (low && log_weight < std::log(static_cast<Real>(*low))) ||
           (high && log_weight > std::log(static_cast<Real>(*high)));
  }

  /// Returns what a token adds to the number by which its sequence is rejected; under sequence_max
  /// 1 if it is beyond the threshold, else 0.
  template <typename Real>
  LOSSGRID_KERNEL static Real rejection_term(Real log_weight, const ClippedPgOptions& options) {
    const Real number = rejection_number(log_weight, options.rejection_statistic);
    if (options.rejection_level != RejectionLevel::sequence_max) return number;
    return is_rejected(number, options) ? Real(1) : Real(0);
  }

  /// True if a sequence is rejected. On the host.
  template <typename Real>
  static bool rejects_sequence(Real sum, Real mean, const ClippedPgOptions& options) {
    switch (options.rejection_level) {
      case RejectionLevel::sequence_sum:
        return is_rejected(sum, options);
      case RejectionLevel::sequence_mean:
        return is_rejected(mean, options);
      case RejectionLevel::sequence_max:
        return sum > 0;
      default:
        return false;
    }
  }

  /// True if off-policy masking may drop a token with this advantage.
  template <typename Real>
  LOSSGRID_KERNEL static bool is_maskable(Real advantage) {
    return advantage < 0;
  }

  /// Returns the importance weight w after tis or icepop.
  template <typename Real>
  LOSSGRID_KERNEL static Real truncated(Real weight, const ClippedPgOptions& options) {
    switch (options.truncated_importance_sampling_type) {
      case Truncation::tis:
        return std::clamp(
            weight, static_cast<Real>(options.truncated_importance_sampling_ratio_min.value_or(0)),
            static_cast<Real>(*options.truncated_importance_sampling_ratio));
      case Truncation::icepop:
        return out_of_bounds(weight, options) ? Real(0) : weight;
      default:
        return weight;
    }
  }

  /// Mean importance weight of the global batch, of tokens or of sequences with a valid token. On
  /// the host.
  template <class Objective, class Batch>
  static double batch_mean_weight(const Objective& objective, const Batch& batch) {
    return batch.input_sum / static_cast<double>(objective.weights_of(batch.denominators));
  }

  /// d loss / d entropy of a token that has the whole share: the loss has - coefficient H.
  template <typename Real>
  LOSSGRID_KERNEL static Real entropy_slope(Real coefficient) {
    return -coefficient;
  }

  /// Mean importance weight over the sequences that count: `weights` and `mask` [S].
  static double mean_sequence_weight(std::span<const double> weights,
                                     std::span<const std::uint8_t> mask,
                                     std::int64_t valid_sequences) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (mask[i] != 0) sum += weights[i];
    }
    return sum / static_cast<double>(valid_sequences);
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
  if (options.policy_loss == PolicyLoss::sapo) return gated<Formulas>(advantage, rho, options);
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

}  // namespace lossgrid
