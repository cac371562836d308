// SPDX-License-Identifier: Apache-2.0
// Mutants of policy losses whose ratio is a weight without gradient, DPPO and VESPO, and of the
// penalty of DRO.
#include <algorithm>
#include <cmath>

#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

namespace lossgrid {
namespace {

bool has_tv_mask(const ClippedPgOptions& options) {
  return options.policy_loss == PolicyLoss::dppo_tv;
}

bool has_kl_mask(const ClippedPgOptions& options) {
  return options.policy_loss == PolicyLoss::dppo_kl;
}

bool has_vespo_gate(const ClippedPgOptions& options) {
  return options.is_vespo();
}

bool has_dro_penalty(const ClippedPgOptions& options) {
  return options.policy_loss == PolicyLoss::dro;
}

template <class Formulas, bool (*applies)(const ClippedPgOptions&)>
std::unique_ptr<Objective> weighted_loss_with(const ObjectiveSpec& spec) {
  return with_formulas<Formulas>(spec, applies);
}

/// `PenaltyNotHalved`: beta d^2 in the place of beta d^2 / 2.
struct PenaltyNotHalved : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> dro(Real advantage, Real x, Real p, ClippedPgOptions options) {
    options.dro_beta = 2 * *options.dro_beta;
    return ClippedPgFormulas::dro(advantage, x, p, options);
  }
};

struct PenaltyWithoutGradient : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> dro(Real advantage, Real x, Real p, const ClippedPgOptions& options) {
    return {ClippedPgFormulas::dro(advantage, x, p, options).value, -advantage};
  }
};

/// `MaskOfBothDirections`: drops a token that has moved too far in either direction.
struct MaskOfBothDirections : ClippedPgFormulas {
  template <typename Real>
  static bool has_diverged(Real advantage, Real x, Real p, const ClippedPgOptions& options) {
    const Real bound =
        static_cast<Real>(advantage > 0 ? options.ratio_clip_max : options.ratio_clip_min);
    if (has_tv_mask(options)) return std::abs(std::exp(x) - std::exp(p)) > bound;
    return binary_kl(x, p) > bound;
  }
};

/// `MaskByRatio`: bounds of the ratio, as PPO's, in the place of bounds of the probability.
struct MaskByRatio : ClippedPgFormulas {
  template <typename Real>
  static bool has_diverged(Real advantage, Real x, Real p, const ClippedPgOptions& options) {
    const Real moved = std::exp(x - p) - 1;
    return advantage > 0 ? moved > static_cast<Real>(options.ratio_clip_max)
                         : moved < -static_cast<Real>(options.ratio_clip_min);
  }
};

/// `KlOfCurrent`: KL of the current over the previous policy.
struct KlOfCurrent : ClippedPgFormulas {
  template <typename Real>
  static bool has_diverged(Real advantage, Real x, Real p, const ClippedPgOptions& options) {
    if (advantage > 0) {
      return x > p && binary_kl(p, x) > static_cast<Real>(options.ratio_clip_max);
    }
    return x < p && binary_kl(p, x) > static_cast<Real>(options.ratio_clip_min);
  }
};

struct RatioNotTruncated : ClippedPgFormulas {
  template <typename Real>
  static Real dppo_weight(Real rho, const ClippedPgOptions& /*options*/) {
    return rho;
  }
};

struct GateOfMean : ClippedPgFormulas {
  template <typename Real>
  static Real vespo_gate(Real /*sum*/, Real mean, Real k, Real lambda) {
    return ClippedPgFormulas::vespo_gate(mean, mean, k, lambda);
  }
};

/// `GateNotNormalised`: e^(k s - lambda e^s), which is e^-lambda for equal policies.
struct GateNotNormalised : ClippedPgFormulas {
  template <typename Real>
  static Real vespo_gate(Real sum, Real mean, Real k, Real lambda) {
    return std::exp(-lambda) * ClippedPgFormulas::vespo_gate(sum, mean, k, lambda);
  }
};

/// Returns vespo with the weights of the other sign; null for other losses.
std::unique_ptr<Objective> vespo_signs_swapped(const ObjectiveSpec& spec) {
  if (spec.kind != "clipped_pg") return nullptr;
  ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  if (!options.is_vespo()) return nullptr;
  std::swap(options.vespo_k_pos, options.vespo_k_neg);
  std::swap(options.vespo_lambda_pos, options.vespo_lambda_neg);
  return std::make_unique<ClippedPgObjective<>>(options);
}

const RegisteredMutant weighted_loss_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M219",
        .name = "dro_penalty_not_halved",
        .what = "dro: beta d^2 in the place of beta d^2 / 2",
        .strategy = "fused",
        .objective = weighted_loss_with<PenaltyNotHalved, has_dro_penalty>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M219",
        .name = "dro_penalty_without_gradient",
        .what = "dro: the penalty has no gradient",
        .strategy = "one_sweep",
        .objective = weighted_loss_with<PenaltyWithoutGradient, has_dro_penalty>,
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M220",
        .name = "dppo_tv_drops_both_directions",
        .what = "dppo_tv: drops tokens that have moved against their advantage, too",
        .strategy = "fused",
        .objective = weighted_loss_with<MaskOfBothDirections, has_tv_mask>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M220",
        .name = "dppo_kl_drops_both_directions",
        .what = "dppo_kl: drops tokens that have moved against their advantage, too",
        .strategy = "cp_local",
        .objective = weighted_loss_with<MaskOfBothDirections, has_kl_mask>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M221",
        .name = "dppo_mask_by_ratio",
        .what = "dppo_tv: the bounds are those of the ratio less 1, not of the probability",
        .strategy = "cp_local",
        .objective = weighted_loss_with<MaskByRatio, has_tv_mask>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M222",
        .name = "dppo_ratio_not_truncated",
        .what = "dppo: the ratio as a weight is not truncated at ratio_clip_c",
        .strategy = "one_sweep",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<RatioNotTruncated>(
                  spec, [](const ClippedPgOptions& o) { return o.is_dppo() && o.ratio_clip_c; });
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M223",
        .name = "dppo_kl_of_current",
        .what = "dppo_kl: KL of the current over the previous policy",
        .strategy = "fused",
        .objective = weighted_loss_with<KlOfCurrent, has_kl_mask>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M224",
        .name = "vespo_gate_of_mean",
        .what = "vespo: the mean of a sequence's log ratios in the place of their sum",
        .strategy = "cp_local",
        .objective = weighted_loss_with<GateOfMean, has_vespo_gate>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M225",
        .name = "vespo_gate_not_normalised",
        .what = "vespo: the weight of equal policies is e^-lambda, not 1",
        .strategy = "fused",
        .objective = weighted_loss_with<GateNotNormalised, has_vespo_gate>,
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M226",
        .name = "vespo_signs_swapped",
        .what = "vespo: k and lambda of the other sign of the advantage",
        .strategy = "fused",
        .objective = vespo_signs_swapped,
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
