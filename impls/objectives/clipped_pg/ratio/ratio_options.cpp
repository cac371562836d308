// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/ratio/ratio_options.h"

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {

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
