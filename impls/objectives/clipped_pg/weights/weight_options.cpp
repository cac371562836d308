// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/weights/weight_options.h"

#include <cmath>
#include <optional>

#include "harness/problem/batch/objective_inputs.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {
namespace {

void require_truncation_fits(const ClippedPgOptions& o) {
  const std::optional<double>& ratio = o.truncated_importance_sampling_ratio;
  const std::optional<double>& ratio_min = o.truncated_importance_sampling_ratio_min;
  require_clipped_pg({
      {!o.truncates() && ratio,
       "truncated_importance_sampling_ratio needs a truncated_importance_sampling_type"},
      {!o.truncates() && ratio_min,
       "truncated_importance_sampling_ratio_min needs a truncated_importance_sampling_type"},
  });
  if (!o.truncates()) return;
  require_clipped_pg({
      {!o.use_importance_sampling_correction,
       "truncated_importance_sampling_type needs use_importance_sampling_correction = true"},
      {!ratio || *ratio <= 0,
       "truncated_importance_sampling_type needs truncated_importance_sampling_ratio above 0"},
      {o.truncated_importance_sampling_type == Truncation::icepop && !ratio_min,
       "truncated_importance_sampling_type = \"icepop\" needs a "
       "truncated_importance_sampling_ratio_min"},
      {o.masks_sequences() && !ratio_min,
       "truncated_importance_sampling_type = \"seq-mask-tis\" needs a "
       "truncated_importance_sampling_ratio_min"},
      {ratio && ratio_min && *ratio_min > *ratio,
       "truncated_importance_sampling_ratio_min must not be above "
       "truncated_importance_sampling_ratio"},
      {o.masks_sequences() && o.sequence_level_importance_ratios,
       "truncated_importance_sampling_type = \"seq-mask-tis\" excludes "
       "sequence_level_importance_ratios = true"},
  });
}

}  // namespace

void require_weights_fit(const ClippedPgOptions& o) {
  require_truncation_fits(o);
  require_clipped_pg({
      {o.rollout_is && !o.use_importance_sampling_correction,
       "rollout_is needs use_importance_sampling_correction = true"},
      {o.rollout_is_batch_normalize && !o.use_importance_sampling_correction,
       "rollout_is_batch_normalize = true needs use_importance_sampling_correction = true"},
      {o.rollout_is_batch_normalize && (o.masks_sequences() || o.force_on_policy_ratio),
       "rollout_is_batch_normalize = true excludes force_on_policy_ratio = true and "
       "truncated_importance_sampling_type = \"seq-mask-tis\""},
      {o.zero_weights_nonfinite() && !o.use_importance_sampling_correction,
       "nonfinite_generation_logprobs = \"zero_weight\" needs "
       "use_importance_sampling_correction = true"},
      {o.masks_sequences() && o.weighs_sequences(),
       "truncated_importance_sampling_type = \"seq-mask-tis\" needs weights of tokens"},
  });
}

void add_weight_needs(const ClippedPgOptions& o, ObjectiveNeeds& needs) {
  needs.sequence_counts |= o.rollout_is_batch_normalize && o.weighs_sequences();
  needs.input_sum = o.rollout_is_batch_normalize;
  needs.generation_may_lack = o.nonfinite_generation_logprobs != NonfiniteGeneration::refuse;
  needs.drops_lacking = o.nonfinite_generation_logprobs == NonfiniteGeneration::drop;
}

void add_weight_edges(const ClippedPgOptions& o, PolicyEdges& edges) {
  if (!o.truncates()) return;
  const std::optional<double>& low = o.truncated_importance_sampling_ratio_min;
  if (low && *low > 0) edges.log_weights.add(std::log(*low));
  edges.log_weights.add(std::log(*o.truncated_importance_sampling_ratio));
  if (o.masks_sequences()) edges.sequences_per_edge = 1;
}

}  // namespace lossgrid
