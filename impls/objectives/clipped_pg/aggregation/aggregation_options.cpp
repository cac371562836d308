// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/aggregation/aggregation_options.h"

#include <cmath>
#include <cstdint>

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {
namespace {

constexpr double kLargestGroup = 2147483647;
constexpr NumberRule kGroup{"must be a whole number in [1, 2^31)", [](double x) {
                              return x >= 1 && x <= kLargestGroup && x == std::floor(x);
                            }};

}  // namespace

void AggregationOptions::read(const OptionReader& reader) {
  reader.read(
      "token_level_loss", token_level_loss,
      {"mean over tokens; false: mean over sequences of their means over tokens", "DAPO, GRPO"});
  reader.read("loss_agg_mode", loss_agg_mode,
              {"token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum",
               "seq-mean-token-sum-norm", "prompt-mean", "token-mean-legacy"},
              {"in the place of `token_level_loss`, for policy, KL and entropy terms alike; see "
               "[aggregation](#aggregation)",
               "verl `loss_agg_mode`, SkyRL `loss_reduction`"});
  reader.read("loss_scale_factor", loss_scale_factor,
              {"C of `seq-mean-token-sum-norm`",
               "verl `loss_scale_factor`; Dr. GRPO, TRL `dr_grpo`",
               kAbove0,
               {"64.0"}});
  reader.read(
      "prompt_group_size", prompt_group_size,
      {"neighbouring sequences that answer one prompt, for `prompt-mean`; the last group may "
       "have fewer",
       "SkyRL `n_samples_per_prompt`",
       kGroup,
       {"2.0", "3.0"}});
  reader.read("count_masked_sequences", count_masked_sequences,
              {"means over sequences or groups by `loss_agg_mode` count masked ones too",
               "false: verl, OpenRLHF; true: SkyRL, TRL"});
}

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
