// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/ratio/ratio_options.h"

#include <cmath>

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/objective_options.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {
namespace {

constexpr NumberRule kBelow0{"must be below 0", [](double x) { return x < 0; }};
constexpr NumberRule kAbove1{"must be above 1", [](double x) { return x > 1; }};
constexpr double kLargestVersion = 16777216;
constexpr NumberRule kVersion{"must be a whole number in [0, 2^24]", [](double x) {
                                return x >= 0 && x <= kLargestVersion && x == std::floor(x);
                              }};

}  // namespace

void RatioOptions::read(const OptionReader& reader) {
  reader.read("ratio_clip_min", ratio_clip_min,
              {"clip range of the ratio, from 1 - min",
               "verl `clip_ratio_low`",
               kShare,
               {"0.1", "0.003", "0.0"}});
  reader.read("ratio_clip_max", ratio_clip_max,
              {"clip range of the ratio, to 1 + max",
               "verl `clip_ratio_high`",
               kNotNegative,
               {"0.28", "0.01", "1.1"}});
  reader.read("ratio_clip_c", ratio_clip_c,
              {"dual clip: bounds the loss of negative advantages",
               "verl `clip_ratio_c`, TRL `delta` (above 1 + max)",
               kAbove1,
               {"1.4", "3.0"}});
  reader.read("disable_ppo_ratio", disable_ppo_ratio,
              {"log-probability instead of the ratio", "REINFORCE; verl `gpg`"});
  reader.read("force_on_policy_ratio", force_on_policy_ratio,
              {"takes the current log-probabilities as the previous ones: the ratio is 1, with "
               "`disable_ppo_ratio` too"});
  reader.read("log_ratio_min", log_ratio_min,
              {"lower bound of the logarithm of a ratio before its exponential, without gradient "
               "beyond it",
               "verl, SkyRL, OpenRLHF -20; torchtitan -10; none in NeMo-RL, TRL, AReaL",
               kBelow0,
               {"-0.3", "-10.0"}});
  reader.read(
      "log_ratio_max", log_ratio_max,
      {"upper bound of the logarithm of a ratio before its exponential, without gradient beyond it",
       "verl, SkyRL, OpenRLHF 20; torchtitan 10; none in NeMo-RL, TRL, AReaL",
       kAbove0,
       {"0.1", "0.25", "10.0"}});
  reader.read("use_cispo", use_cispo,
              {"clipped ratio as a weight without gradient", "CISPO, MiniMax-M1"});
  reader.read(
      "cispo_bounds", cispo_bounds, {"offset", "upper", "absolute"},
      {"clip range of CISPO: `offset` 1 - min to 1 + max; `upper` at most max; `absolute` min "
       "to max",
       "verl, SkyRL; TRL, Liger; Tinker"});
  reader.read("sequence_level_importance_ratios", sequence_level_importance_ratios,
              {"one ratio for a sequence, the geometric mean of its tokens'", "GSPO"});
  reader.read("gspo_token", gspo_token,
              {"the ratio of the sequence with the gradient of the token's own log-probability "
               "alone; verl has `log_ratio_max=10`",
               "GSPO-token: verl, SkyRL `gspo`"});
  reader.read("prox_logp_method", prox_logp_method, {"recompute", "loglinear", "linear"},
              {"the [proximal policy](#approximated-proximal-policy), to which the ratio is taken. "
               "`recompute`: the input `prev_logprobs`; the others: between the generating and the "
               "current policy by their versions, without gradient",
               "AReaL `prox_logp_method`; linear: its `ProxApproxMethod`"});
  reader.read("current_version", current_version,
              {"version of the current policy, for `loglinear` and `linear`",
               "AReaL `current_version`",
               kVersion,
               {"5.0"}});
}

void require_ratios_fit(const ClippedPgOptions& o) {
  require_clipped_pg({
      {o.sequence_level_importance_ratios && o.token_level_loss && !o.loss_agg_mode,
       "sequence_level_importance_ratios = true needs token_level_loss = false or a "
       "loss_agg_mode"},
      {o.use_cispo && o.disable_ppo_ratio, "use_cispo = true excludes disable_ppo_ratio = true"},
      {o.use_cispo && o.force_on_policy_ratio,
       "use_cispo = true excludes force_on_policy_ratio = true"},
      {o.use_cispo && o.sequence_level_importance_ratios,
       "use_cispo = true excludes sequence_level_importance_ratios = true"},
      {o.cispo_bounds != CispoBounds::offset && !o.use_cispo,
       "cispo_bounds needs use_cispo = true"},
      {o.use_cispo && o.lowest_ratio() > o.highest_ratio(),
       "ratio_clip_min must not be above ratio_clip_max where cispo_bounds = \"absolute\""},
      {o.gspo_token && !o.sequence_ratio(),
       "gspo_token = true needs sequence_level_importance_ratios = true and a ratio"},
      {(o.log_ratio_min || o.log_ratio_max) && !o.has_ratio(),
       "log_ratio_min and log_ratio_max need a ratio"},
      {o.use_cispo && o.ratio_clip_c, "use_cispo = true excludes a ratio_clip_c"},
      {o.use_cispo && !o.token_level_loss && !o.loss_agg_mode,
       "use_cispo = true excludes token_level_loss = false without a loss_agg_mode"},
  });
}

void require_proximal_fits(const ClippedPgOptions& o) {
  const std::optional<double>& now = o.current_version;
  require_clipped_pg({
      {o.approximates_proximal() && !now,
       "prox_logp_method = \"loglinear\" and \"linear\" need a current_version"},
      {now && !o.approximates_proximal(),
       "current_version needs prox_logp_method = \"loglinear\" or \"linear\""},
      {now && o.force_on_policy_ratio, "prox_logp_method excludes force_on_policy_ratio = true"},
      {now && o.rollout_is_batch_normalize,
       "prox_logp_method excludes rollout_is_batch_normalize = true: its weights depend on the "
       "current policy"},
      {now && o.zero_weights_nonfinite(),
       "prox_logp_method excludes nonfinite_generation_logprobs = \"zero_weight\""},
  });
}

void add_ratio_needs(const ClippedPgOptions& o, ObjectiveNeeds& needs) {
  needs.inputs[static_cast<int>(TokenInput::prev_logprobs)] =
      !o.force_on_policy_ratio && !o.approximates_proximal();
  needs.inputs[static_cast<int>(TokenInput::versions)] = o.approximates_proximal();
}

void add_ratio_edges(const ClippedPgOptions& o, PolicyEdges& edges) {
  if (o.log_ratio_min) edges.log_ratios.add(*o.log_ratio_min);
  if (o.log_ratio_max) edges.log_ratios.add(*o.log_ratio_max);
  edges.weights_from_current = o.force_on_policy_ratio || o.approximates_proximal();
  if (o.sequence_ratio()) edges.sequences_per_edge = 1;
}

}  // namespace lossgrid
