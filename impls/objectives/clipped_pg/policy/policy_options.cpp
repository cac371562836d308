// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/policy/policy_options.h"

#include <cmath>

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {

void require_policy_loss_fits(const ClippedPgOptions& o) {
  require_clipped_pg(
      {{o.dro_beta && o.policy_loss != PolicyLoss::dro, "dro_beta needs policy_loss = \"dro\""}});
  if (o.policy_loss == PolicyLoss::ppo) return;
  require_clipped_pg({
      {o.use_cispo, "use_cispo = true needs policy_loss = \"ppo\""},
      {o.disable_ppo_ratio, "disable_ppo_ratio = true needs policy_loss = \"ppo\""},
      {o.ratio_clip_c && !o.is_dppo(), "ratio_clip_c needs policy_loss = \"ppo\" or that of DPPO"},
  });
  if (o.policy_loss == PolicyLoss::sapo) return;
  const bool is_dro = o.policy_loss == PolicyLoss::dro;
  const bool weighs_tokens = o.use_importance_sampling_correction && !o.weighs_sequences();
  require_clipped_pg({
      {o.force_on_policy_ratio,
       "force_on_policy_ratio = true needs policy_loss = \"ppo\" or \"sapo\""},
      {o.sequence_level_importance_ratios,
       "sequence_level_importance_ratios = true needs policy_loss = \"ppo\" or \"sapo\""},
      {is_dro && !o.dro_beta, "policy_loss = \"dro\" needs a dro_beta"},
      {is_dro && (o.log_ratio_min || o.log_ratio_max),
       "log_ratio_min and log_ratio_max exclude policy_loss = \"dro\""},
      {o.is_geo_mean() && o.token_level_loss && !o.loss_agg_mode,
       "policy_loss = \"geo_mean\" needs token_level_loss = false or a loss_agg_mode"},
      {o.is_geo_mean() && weighs_tokens, "policy_loss = \"geo_mean\" needs weights of sequences"},
      {o.is_geo_mean() && o.rejection_level == RejectionLevel::token,
       "policy_loss = \"geo_mean\" excludes a rollout_rs of tokens"},
      {o.is_geo_mean() && o.off_policy_mask_threshold,
       "policy_loss = \"geo_mean\" excludes off_policy_mask_threshold"},
      {o.is_binary_dppo() && o.zero_weights_nonfinite(),
       "the ratios of this policy_loss exclude nonfinite_generation_logprobs = \"zero_weight\""},
      {o.is_vespo() && o.use_importance_sampling_correction,
       "policy_loss = \"vespo\" excludes use_importance_sampling_correction = true"},
  });
}

void add_policy_needs(const ClippedPgOptions& o, ObjectiveNeeds& needs) {
  needs.rewards = o.positive_example_nll_weight > 0;
  if (o.entropy_coefficient != 0) needs.terms.add(RowTerm::entropy);
}

void add_policy_edges(const ClippedPgOptions& o, PolicyEdges& edges) {
  if (o.clips()) {
    if (o.lowest_ratio() > 0) edges.log_ratios.add(std::log(o.lowest_ratio()));
    if (o.highest_ratio() > 0) edges.log_ratios.add(std::log(o.highest_ratio()));
    if (o.ratio_clip_c) edges.log_ratios.add(std::log(*o.ratio_clip_c));
  }
  if (o.is_geo_mean()) {
    edges.log_ratios.add(-o.ratio_clip_min);
    edges.log_ratios.add(o.ratio_clip_max);
  }
}

}  // namespace lossgrid
