// SPDX-License-Identifier: Apache-2.0
// Mutants of the policy losses beside PPO's: another temperature, gate or aggregation.
#include "impls/mutants/mutant.h"
#include "impls/objectives/clipped_pg/wrong_formulas.h"

namespace lossgrid {
namespace {

bool is_sapo(const ClippedPgOptions& options) {
  return options.policy_loss == PolicyLoss::sapo;
}

struct TemperaturesSwapped : ClippedPgFormulas {
  template <typename Real>
  static Real sapo_temperature(Real advantage, const ClippedPgOptions& options) {
    return static_cast<Real>(advantage > 0 ? options.tau_neg : options.tau_pos);
  }
};

/// `GateOfSigmoid`: the sigmoid alone, as if the factor 4 / tau were a part of the advantage.
struct GateOfSigmoid : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> sapo_gate(Real tau, Real rho) {
    const Slope<Real> gate = ClippedPgFormulas::sapo_gate(tau, rho);
    return {gate.value * tau / 4, gate.slope * tau / 4};
  }
};

/// `SlopeOfLogarithm`: the derivative 1 - sigmoid of the sigmoid's logarithm.
struct SlopeOfLogarithm : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> sapo_gate(Real tau, Real rho) {
    const Slope<Real> gate = ClippedPgFormulas::sapo_gate(tau, rho);
    return {gate.value, 4 - tau * gate.value};
  }
};

/// Returns clipped_pg with sapo as a mean over sequences; null where it is one.
std::unique_ptr<Objective> sapo_over_sequences(const ObjectiveSpec& spec) {
  if (spec.kind != "clipped_pg") return nullptr;
  ClippedPgOptions options = ClippedPgOptions::from(spec.options);
  const AggregationMode mode = options.aggregation().mode;
  if (!is_sapo(options) || mode == AggregationMode::sequence_mean_token_mean) return nullptr;
  options.token_level_loss = false;
  options.loss_agg_mode.reset();
  return std::make_unique<ClippedPgObjective<>>(options);
}

const RegisteredMutant policy_mutants[] = {
    RegisteredMutant({
        .catalogue_id = "M155",
        .name = "sapo_temperatures_swapped",
        .what = "sapo: tau_neg for positive advantages, tau_pos for negative ones",
        .strategy = "fused",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<TemperaturesSwapped>(spec, is_sapo);
            },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M156",
        .name = "sapo_without_factor",
        .what = "sapo: the sigmoid without its factor 4 / tau",
        .strategy = "one_sweep",
        .objective =
            [](const ObjectiveSpec& spec) { return with_formulas<GateOfSigmoid>(spec, is_sapo); },
        .rejected_by = "loss",
    }),
    RegisteredMutant({
        .catalogue_id = "M156",
        .name = "sapo_slope_of_logarithm",
        .what = "sapo: the derivative of the gate is that of the sigmoid's logarithm",
        .strategy = "cp_local",
        .objective =
            [](const ObjectiveSpec& spec) {
              return with_formulas<SlopeOfLogarithm>(spec, is_sapo);
            },
        .rejected_by = "grad_logits",
    }),
    RegisteredMutant({
        .catalogue_id = "M157",
        .name = "sapo_over_sequences",
        .what = "sapo: a mean over sequences of token means, whatever the aggregation is",
        .strategy = "fused",
        .objective = sapo_over_sequences,
        .seen_in = "verl 0.9.1, by design",
        .rejected_by = "loss",
    }),
};

}  // namespace
}  // namespace lossgrid
