// SPDX-License-Identifier: Apache-2.0
// The needs of `clipped_pg`: its inputs, counts and numbers of rows.
#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"

namespace lossgrid {

ObjectiveNeeds ClippedPgOptions::needs() const {
  ObjectiveNeeds needs;
  const auto set = [&](TokenInput which, bool is_needed) {
    needs.inputs[static_cast<std::size_t>(which)] = is_needed;
  };
  set(TokenInput::advantages, true);
  set(TokenInput::prev_logprobs, !force_on_policy_ratio && !approximates_proximal());
  set(TokenInput::versions, approximates_proximal());
  set(TokenInput::generation_logprobs, true);
  set(TokenInput::reference_policy_logprobs, kl_penalty() != 0);
  needs.rewards = positive_example_nll_weight > 0;
  needs.sequence_counts =
      (loss_agg_mode && !aggregation().over_tokens() && !aggregation().over_groups()) ||
      (rollout_is_batch_normalize && weighs_sequences());
  needs.input_sum = rollout_is_batch_normalize;
  needs.packs_are_groups = aggregation().over_packs();
  if (prompt_group_size) needs.group_size = static_cast<std::int64_t>(*prompt_group_size);
  needs.generation_may_lack = nonfinite_generation_logprobs != NonfiniteGeneration::refuse;
  needs.drops_lacking = nonfinite_generation_logprobs == NonfiniteGeneration::drop;
  const bool is_by_entropy = selection() == Selection::top_entropy;
  if (entropy_coefficient != 0 || is_by_entropy) needs.terms.add(RowTerm::entropy);
  needs.selects = needs.whole_batch = selects();
  needs.draws = selection() == Selection::clip_cov;
  return needs;
}

}  // namespace lossgrid
