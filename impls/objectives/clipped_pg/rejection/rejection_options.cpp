// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/rejection/rejection_options.h"

#include <cmath>
#include <optional>

#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/k3_root.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {

void require_rejection_fits(const ClippedPgOptions& o) {
  const bool has_rule = o.rejection_level != RejectionLevel::none;
  const std::optional<double>& high = o.rollout_rs_threshold;
  const std::optional<double>& low = o.rollout_rs_threshold_min;
  require_clipped_pg({
      {has_rule && (!high || *high <= 0), "rollout_rs needs a rollout_rs_threshold above 0"},
      {!has_rule && (high || low), "rollout_rs_threshold needs a rollout_rs"},
      {low && o.rejection_statistic != RejectionStatistic::k1,
       "rollout_rs_threshold_min needs a rollout_rs by k1"},
      {low && high && (*low <= 0 || *low > *high),
       "rollout_rs_threshold_min must be above 0 and not above rollout_rs_threshold"},
      {o.veto_ratio_max && *o.veto_ratio_max <= o.veto_ratio_min.value_or(0),
       "veto_ratio_max must be above 0 and above veto_ratio_min, or null"},
      {o.token_masks_first && o.rejection_level != RejectionLevel::token,
       "token_masks_first = true needs a rollout_rs of tokens"},
  });
}

void add_rejection_edges(const ClippedPgOptions& o, PolicyEdges& edges) {
  Edges& at = edges.log_weights;
  if (o.veto_ratio_min) at.add(std::log(*o.veto_ratio_min));
  if (o.veto_ratio_max) at.add(std::log(*o.veto_ratio_max));
  if (o.rejection_level == RejectionLevel::none) return;
  if (o.rejection_level == RejectionLevel::sequence_mean) edges.sequences_per_edge = 1;
  const double bound = *o.rollout_rs_threshold;
  for (const double sign : {1.0, -1.0}) {
    if (o.rejection_statistic == RejectionStatistic::k2) at.add(sign * std::sqrt(2 * bound));
    if (o.rejection_statistic == RejectionStatistic::k3) at.add(k3_root(bound, sign));
  }
  if (o.rejection_statistic != RejectionStatistic::k1) return;
  at.add(std::log(bound));
  if (o.rollout_rs_threshold_min) at.add(std::log(*o.rollout_rs_threshold_min));
}

}  // namespace lossgrid
