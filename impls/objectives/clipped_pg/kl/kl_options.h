// SPDX-License-Identifier: Apache-2.0
// KlOptions: the options of `clipped_pg` about the KL to the reference policy. nvcc compiles this
// header.
#pragma once

#include <optional>

#include "impls/objectives/objective_options.h"

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
struct PolicyEdges;

/// Estimators of KL(x || ref) from r = ref - x (J. Schulman, "Approximating KL Divergence", 2020).
enum class KlType {
  k1,   // -r
  k2,   // r^2 / 2
  k3,   // e^r - 1 - r
  abs,  // |r|
};

/// Gradient of the KL term of a token.
enum class KlGradient {
  score,             // of the estimator times e^(x - x without gradient), as NeMo-RL
  value,             // of the estimator
  straight_through,  // x - ref, whatever the estimator is: "k3+" of verl
  importance,        // min(e^(x - prev), 10) (x - ref): unbiased_gradient of OpenRLHF
  ratio,             // of the estimator times the ratio: use_bias_correction_kl of TRL
};

struct KlOptions {
  double reference_policy_kl_penalty = 0.01;
  KlType reference_policy_kl_type = KlType::k3;
  KlGradient kl_gradient = KlGradient::score;
  std::optional<double> kl_input_clamp_value = 20.0;
  std::optional<double> kl_output_clamp_value = 10.0;
  bool use_kl_in_reward = false;  // then the loss has no KL term
  bool use_on_policy_kl_approximation = false;

  void read(const OptionReader& reader);

  /// Weight of the KL term in the loss.
  constexpr double kl_penalty() const { return use_kl_in_reward ? 0 : reference_policy_kl_penalty; }
};

inline void KlOptions::read(const OptionReader& reader) {
  reader.read("reference_policy_kl_penalty", reference_policy_kl_penalty,
              {"weight of the KL term", "verl `kl_loss_coef`", {}, {"0.1", "0.0"}});
  reader.read("reference_policy_kl_type", reference_policy_kl_type, {"k1", "k2", "k3", "abs"},
              {"estimator of the KL, or `abs`, the distance of the log-probabilities",
               "verl `kl_loss_type`"});
  reader.read("kl_gradient", kl_gradient,
              {{"score", "NeMo-RL"},
               {"value", "verl, TRL, SkyRL"},
               {"straight-through", "verl k3+"},
               {"importance", "OpenRLHF"},
               {"ratio", "TRL use_bias_correction_kl"}},
              {"gradient of the KL. `score`: the score gradient; `value`: of the estimator alone; "
               "`straight-through`: of k2, whatever the value; `importance`: of k2 times "
               "min(ratio, 10); `ratio`: of the estimator times the ratio",
               "NeMo-RL; verl, SkyRL; verl `k3+`; OpenRLHF `unbiased_gradient`; TRL "
               "`use_bias_correction_kl`"});
  reader.read("kl_input_clamp_value", kl_input_clamp_value,
              {"clamp of the log ratio in the KL; null: no clamp", "", kAbove0, {"0.4"}});
  reader.read("kl_output_clamp_value", kl_output_clamp_value,
              {"clamp of the KL; null: no clamp", "", kAbove0, {"0.05"}});
  reader.read("use_kl_in_reward", use_kl_in_reward,
              {"the KL is in the reward: no term in the loss"});
  reader.read("use_on_policy_kl_approximation", use_on_policy_kl_approximation,
              {"KL weighted by current over generation probability"});
}

/// Throws bad_input for a combination that is not allowed.
void require_kl_fits(const ClippedPgOptions& options);

/// Adds the needs of the KL: the reference policy.
void add_kl_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

/// Adds the distances at which the KL meets its clamps.
void add_kl_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
