// SPDX-License-Identifier: Apache-2.0
// PolicyLossOptions: the options of `clipped_pg` by which a ratio and an advantage make the loss of
// a token. nvcc compiles this header.
#pragma once

#include <optional>

#include "impls/objectives/objective_options.h"

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
struct PolicyEdges;

/// Loss of a token by its advantage and ratio (policy_losses.h).
enum class PolicyLoss {
  ppo,       // with clip bounds
  sapo,      // Soft Adaptive Policy Optimization, a soft gate in the place of the clip
  geo_mean,  // Geometric-Mean Policy Optimization, one ratio of clipped logarithms for a sequence
  dro,       // Direct Reward Optimization, a quadratic penalty of the log ratio
  dppo_tv,   // Divergence PPO, a mask by the distance of probabilities
  dppo_kl,   // the same by a binary KL
  vespo,     // gamma weights by the ratio of a sequence
  clip_cov,  // as ppo, and some tokens of a high covariance have no policy term
  kl_cov,    // without clip bounds, and tokens of the highest covariance have a penalty
  dppo_binary_tv,  // dppo_tv and dppo_kl with the gradient of the ratio, to the generating policy
  dppo_binary_kl,
};

struct PolicyLossOptions {
  PolicyLoss policy_loss = PolicyLoss::ppo;
  double tau_pos = 1.0;  // temperature of sapo for advantages above 0
  double tau_neg = 1.05;
  std::optional<double> dro_beta;  // weight of the penalty of dro
  double vespo_k_pos = 2.0;        // weights of vespo for advantages of at least 0
  double vespo_lambda_pos = 3.0;
  double vespo_k_neg = 3.0;
  double vespo_lambda_neg = 2.0;
  double positive_example_nll_weight = 0;
  double entropy_coefficient = 0;  // c of - c H, H the entropy of the policy in nats

  void read(const OptionReader& reader);

  /// True if the clipped logarithms of a sequence's ratios have one mean.
  constexpr bool is_geo_mean() const { return policy_loss == PolicyLoss::geo_mean; }
  constexpr bool is_vespo() const { return policy_loss == PolicyLoss::vespo; }
  constexpr bool is_dppo() const {
    return policy_loss == PolicyLoss::dppo_tv || policy_loss == PolicyLoss::dppo_kl;
  }
  constexpr bool is_kl_cov() const { return policy_loss == PolicyLoss::kl_cov; }
  /// True if the ratio is that to the generating policy.
  constexpr bool is_binary_dppo() const {
    return policy_loss == PolicyLoss::dppo_binary_tv || policy_loss == PolicyLoss::dppo_binary_kl;
  }
};

inline void PolicyLossOptions::read(const OptionReader& reader) {
  reader.read("policy_loss", policy_loss,
              {"ppo", "sapo", "geo_mean", "dro", "dppo_tv", "dppo_kl", "vespo", "clip_cov",
               "kl_cov", "dppo_binary_tv", "dppo_binary_kl"},
              {"another loss in the place of the clip: see [policy losses](#policy-losses)",
               "verl `loss_mode`; TRL `loss_type`"});
  reader.read("tau_pos", tau_pos,
              {"tau of `sapo` for advantages above 0",
               "verl `tau_pos`, TRL `sapo_temperature_pos`",
               kAbove0,
               {"0.5"}});
  reader.read("tau_neg", tau_neg,
              {"tau of `sapo` for other advantages",
               "verl `tau_neg`, TRL `sapo_temperature_neg`",
               kAbove0,
               {"2.0"}});
  reader.read(
      "dro_beta", dro_beta,
      {"weight of the penalty of `dro`, which needs it", "verl `dro_beta`", kAbove0, {"0.5"}});
  reader.read("vespo_k_pos", vespo_k_pos,
              {"k of `vespo` for advantages of at least 0", "TRL, Liger", kNotNegative, {"1.0"}});
  reader.read(
      "vespo_lambda_pos", vespo_lambda_pos,
      {"lambda of `vespo` for advantages of at least 0", "TRL, Liger", kNotNegative, {"0.5"}});
  reader.read("vespo_k_neg", vespo_k_neg,
              {"k of `vespo` for other advantages", "TRL, Liger", kNotNegative, {"0.5"}});
  reader.read("vespo_lambda_neg", vespo_lambda_neg,
              {"lambda of `vespo` for other advantages", "TRL, Liger", kNotNegative, {"1.5"}});
  reader.read("positive_example_nll_weight", positive_example_nll_weight,
              {"adds the NLL of sequences with a reward above 0, over the whole global batch",
               "VAPO",
               kNotNegative,
               {"0.1"}});
  reader.read("entropy_coefficient", entropy_coefficient,
              {"c: subtracts c H, the entropy of the policy in nats, aggregated as the policy term",
               "verl `entropy_coeff`",
               {},
               {"0.05", "-0.2"}});
}

/// Throws bad_input for a combination that is not allowed.
void require_policy_loss_fits(const ClippedPgOptions& options);

/// Adds the needs of the policy loss: rewards and entropies.
void add_policy_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

/// Adds the distances at which the policy loss switches.
void add_policy_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
