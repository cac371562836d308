// SPDX-License-Identifier: Apache-2.0
// KlOptions: the options of `clipped_pg` about the KL to the reference policy. nvcc compiles this
// header.
#pragma once

#include <optional>

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
class OptionReader;
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

/// Throws bad_input for a combination that is not allowed.
void require_kl_fits(const ClippedPgOptions& options);

/// Adds the needs of the KL: the reference policy.
void add_kl_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

/// Adds the distances at which the KL meets its clamps.
void add_kl_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
