// SPDX-License-Identifier: Apache-2.0
// The needs of `clipped_pg`: its inputs, and the distances at which its formula switches.
#include <cmath>

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/k3_root.h"

namespace lossgrid {
namespace {

/// Returns the distances at which the KL meets its clamps.
Edges kl_edges(const ClippedPgOptions& o) {
  Edges edges;
  for (const double sign : {1.0, -1.0}) {
    if (o.kl_input_clamp_value) edges.add(sign * *o.kl_input_clamp_value);
    if (!o.kl_output_clamp_value) continue;
    const double bound = *o.kl_output_clamp_value;
    const bool is_linear =
        o.reference_policy_kl_type == KlType::k1 || o.reference_policy_kl_type == KlType::abs;
    edges.add(is_linear                                  ? sign * bound
              : o.reference_policy_kl_type == KlType::k2 ? sign * std::sqrt(2 * bound)
                                                         : k3_root(bound, sign));
  }
  return edges;
}

/// Adds the log weights at which tokens, or sequences of equal ones, are rejected.
void add_rejection_edges(const ClippedPgOptions& o, Edges& edges) {
  if (o.veto_ratio_min) edges.add(std::log(*o.veto_ratio_min));
  if (o.veto_ratio_max) edges.add(std::log(*o.veto_ratio_max));
  if (o.rejection_level == RejectionLevel::none) return;
  const double bound = *o.rollout_rs_threshold;
  for (const double sign : {1.0, -1.0}) {
    if (o.rejection_statistic == RejectionStatistic::k2) edges.add(sign * std::sqrt(2 * bound));
    if (o.rejection_statistic == RejectionStatistic::k3) edges.add(k3_root(bound, sign));
  }
  if (o.rejection_statistic != RejectionStatistic::k1) return;
  edges.add(std::log(bound));
  if (o.rollout_rs_threshold_min) edges.add(std::log(*o.rollout_rs_threshold_min));
}

}  // namespace

ObjectiveNeeds ClippedPgOptions::needs() const {
  ObjectiveNeeds needs;
  const auto set = [&](TokenInput which, bool is_needed) {
    needs.inputs[static_cast<std::size_t>(which)] = is_needed;
  };
  set(TokenInput::advantages, true);
  set(TokenInput::prev_logprobs, !force_on_policy_ratio && !approximates_proximal());
  set(TokenInput::versions, approximates_proximal());
  if (current_version) needs.current_version = static_cast<std::int64_t>(*current_version);
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
  needs.edges_by_unit =
      sequence_ratio() || masks_sequences() || rejection_level == RejectionLevel::sequence_mean;
  if (clips()) {
    if (lowest_ratio() > 0) needs.log_ratios.add(std::log(lowest_ratio()));
    if (highest_ratio() > 0) needs.log_ratios.add(std::log(highest_ratio()));
    if (ratio_clip_c) needs.log_ratios.add(std::log(*ratio_clip_c));
  }
  if (is_geo_mean()) {
    needs.log_ratios.add(-ratio_clip_min);
    needs.log_ratios.add(ratio_clip_max);
  }
  if (log_ratio_min) needs.log_ratios.add(*log_ratio_min);
  if (log_ratio_max) needs.log_ratios.add(*log_ratio_max);
  if (truncates()) {
    const auto& low = truncated_importance_sampling_ratio_min;
    if (low && *low > 0) needs.log_weights.add(std::log(*low));
    needs.log_weights.add(std::log(*truncated_importance_sampling_ratio));
  }
  add_rejection_edges(*this, needs.log_weights);
  needs.reference_offsets = kl_edges(*this);
  return needs;
}

}  // namespace lossgrid
