// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/aggregation/aggregation_options.h"

#include <cstdint>

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"

namespace lossgrid {

void require_aggregation_fits(const ClippedPgOptions& o) {
  const bool divides = o.loss_agg_mode == AggregationMode::sequence_mean_token_sum_norm;
  const bool over_sequences = o.loss_agg_mode && !o.aggregation().over_tokens();
  const bool over_prompts = o.loss_agg_mode == AggregationMode::prompt_mean;
  const std::optional<double>& group = o.prompt_group_size;
  require_clipped_pg({
      {divides && !o.loss_scale_factor,
       "loss_agg_mode = \"seq-mean-token-sum-norm\" needs a loss_scale_factor"},
      {o.loss_scale_factor && !divides,
       "loss_scale_factor needs loss_agg_mode = \"seq-mean-token-sum-norm\""},
      {over_prompts && !group, "loss_agg_mode = \"prompt-mean\" needs a prompt_group_size"},
      {group && !over_prompts, "prompt_group_size needs loss_agg_mode = \"prompt-mean\""},
      {o.count_masked_sequences && !over_sequences,
       "count_masked_sequences = true needs a loss_agg_mode with a mean over sequences"},
  });
}

void add_aggregation_needs(const ClippedPgOptions& o, ObjectiveNeeds& needs) {
  needs.sequence_counts |=
      o.loss_agg_mode && !o.aggregation().over_tokens() && !o.aggregation().over_groups();
  needs.packs_are_groups = o.aggregation().over_packs();
  if (o.prompt_group_size) needs.group_size = static_cast<std::int64_t>(*o.prompt_group_size);
}

}  // namespace lossgrid
