// SPDX-License-Identifier: Apache-2.0
// Loss and metrics of `clipped_pg`, plainly from docs/objectives.md ("clipped_pg") and from
// NeMo-RL's `ClippedPGLossFn`. Its parts have their formulas and cases.
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/aggregation/plain_aggregation.h"
#include "impls/objectives/clipped_pg/kl/plain_kl.h"
#include "impls/objectives/clipped_pg/plain_sequences.h"
#include "impls/objectives/clipped_pg/policy/plain_policy_losses.h"
#include "impls/objectives/clipped_pg/ratio/plain_ratio.h"
#include "impls/objectives/clipped_pg/rejection/plain_rejection.h"
#include "impls/objectives/clipped_pg/selection/plain_selection.h"
#include "impls/objectives/clipped_pg/weights/plain_weights.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {
namespace {

LossAndMetrics clipped_pg_loss(const Case& of, const Rows& live, const Rows& held) {
  const Options& options = of.options;
  const std::string kind = options.name("policy_loss", "ppo");
  const ByToken p = previous_policy(of, held);
  const ByToken rho = ratios(of, p, live, held);
  const auto [least, largest] = clip_range(options);
  std::vector<bool> is_clipped;
  for (std::size_t k = 0; k < rho.size(); ++k) {
    const double a = of.tokens[k].advantage;
    is_clipped.push_back(-a * std::clamp(rho[k], least, largest) > -a * rho[k]);
  }
  const Weights weights = weights_of(of, p, held);
  const std::vector<bool> selected = selected_tokens(of, p, held, is_clipped);
  const ByToken losses = policy_losses(of, p, rho, live, held);
  const ByToken share = token_weights(of);
  const double beta =
      options.flag("use_kl_in_reward") ? 0 : options.number("reference_policy_kl_penalty", 0.01);
  const bool has_positive = options.number("positive_example_nll_weight", 0) > 0;
  LossAndMetrics out;
  double policy = 0;
  double kl = 0;
  double entropy = 0;
  double positive = 0;
  double positive_tokens = 0;
  for (std::size_t k = 0; k < rho.size(); ++k) {
    const Token& token = of.tokens[k];
    double loss = losses[k];
    if (kind == "kl_cov" && selected[k]) {
      loss += options.number("ppo_kl_coef", 0.1) * std::abs(live[k].x - p[k]);
    }
    const bool drops = kind != "kl_cov" && selected[k];
    policy += share[k] * weights.weight[k] * (drops ? 0 : weights.keep[k]) * loss;
    if (beta != 0) kl += share[k] * kl_of_token(of, token, p[k], live[k].x, held[k].x);
    entropy += share[k] * live[k].entropy;
    if (has_positive && of.reward(token.sequence) > 0) {
      positive -= live[k].x;
      positive_tokens += 1;
    }
  }
  positive = positive_tokens > 0 ? positive / positive_tokens : 0;
  out.loss = policy + beta * kl - options.number("entropy_coefficient", 0) * entropy +
             options.number("positive_example_nll_weight", 0) * positive;

  Numbers& metrics = out.metrics;
  metrics["kl_penalty"] = kl;
  metrics["sampling_importance_ratio"] = weights.mean_weight;
  if (weights.share_out_of_bounds) metrics["is_oob_ratio"] = weights.share_out_of_bounds;
  metrics["positive_nll_loss"] =
      has_positive && positive_tokens == 0 ? std::nullopt : std::optional(positive);
  if (options.number("entropy_coefficient", 0) != 0) metrics["entropy"] = entropy;
  const bool rejects = options.name("rollout_rs", "null") != "null" ||
                       options.maybe("veto_ratio_min", std::nullopt) ||
                       options.maybe("veto_ratio_max", std::nullopt) ||
                       options.maybe("off_policy_mask_threshold", std::nullopt);
  if (rejects) {
    metrics["rollout_rs_masked_fraction"] =
        token_mean(of, [&](std::size_t k) { return 1 - weights.keep[k]; });
  }
  const bool selects = kind == "clip_cov" || kind == "kl_cov" ||
                       options.number("top_entropy_quantile", 1) < 1 ||
                       options.maybe("m2_threshold", std::nullopt);
  if (selects) {
    metrics["selected_fraction"] =
        token_mean(of, [&](std::size_t k) { return selected[k] ? 1.0 : 0.0; });
  }
  if (kind == "ppo" && !options.flag("disable_ppo_ratio")) add_ratios(of, rho, metrics);
  add_distances(of, p, held, metrics);
  return out;
}

std::vector<OptionCase> clipped_pg_cases() {
  std::vector<OptionCase> cases{{""}};
  for (const std::vector<OptionCase>& of_part :
       {ratio_cases(), kl_cases(), weight_cases(), rejection_cases(), policy_loss_cases(),
        selection_cases(), aggregation_cases()}) {
    cases.insert(cases.end(), of_part.begin(), of_part.end());
  }
  return cases;
}

const RegisteredPlainObjective plain_clipped_pg{
    {"clipped_pg", kBatch, clipped_pg_loss, clipped_pg_cases()}};

}  // namespace
}  // namespace lossgrid::plain
