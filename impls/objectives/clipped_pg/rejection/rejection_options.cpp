// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/rejection/rejection_options.h"

#include <cmath>
#include <optional>

#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/option_rules.h"
#include "impls/objectives/k3_root.h"
#include "impls/objectives/objective_options.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {
namespace {

/// A name of rollout_rs, by its place among them.
struct RejectionName {
  const char* name;
  RejectionLevel level;
  RejectionStatistic statistic;
};

constexpr RejectionName kRejections[] = {
    {"token_k1", RejectionLevel::token, RejectionStatistic::k1},
    {"token_k2", RejectionLevel::token, RejectionStatistic::k2},
    {"token_k3", RejectionLevel::token, RejectionStatistic::k3},
    {"seq_sum_k1", RejectionLevel::sequence_sum, RejectionStatistic::k1},
    {"seq_sum_k2", RejectionLevel::sequence_sum, RejectionStatistic::k2},
    {"seq_sum_k3", RejectionLevel::sequence_sum, RejectionStatistic::k3},
    {"seq_mean_k1", RejectionLevel::sequence_mean, RejectionStatistic::k1},
    {"seq_mean_k2", RejectionLevel::sequence_mean, RejectionStatistic::k2},
    {"seq_mean_k3", RejectionLevel::sequence_mean, RejectionStatistic::k3},
    {"seq_max_k2", RejectionLevel::sequence_max, RejectionStatistic::k2},
    {"seq_max_k3", RejectionLevel::sequence_max, RejectionStatistic::k3},
};

}  // namespace

void RejectionOptions::read(const OptionReader& reader) {
  OptionNames names;
  for (const RejectionName& rejection : kRejections) names.emplace_back(rejection.name);
  const std::optional<std::size_t> rule = reader.optional_index(
      "rollout_rs", names,
      {"drops the policy term of tokens (`token_k1`, ...), or of sequences by sum, mean or maximum "
       "(`seq_sum_k1`, ...) of k1 (the log weight), k2 or k3; denominators stay",
       "verl `rollout_rs`; `seq_sum_k1` and `seq_mean_k1` are SkyRL's "
       "product and geometric masks"});
  if (rule) {
    rejection_level = kRejections[*rule].level;
    rejection_statistic = kRejections[*rule].statistic;
  }
  reader.read("rollout_rs_threshold", rollout_rs_threshold,
              {"upper bound of the statistic of `rollout_rs`; for k1 the upper bound of the weight",
               "verl `rollout_rs_threshold`",
               {},
               {"1.2", "0.05"}});
  reader.read("rollout_rs_threshold_min", rollout_rs_threshold_min,
              {"lower bound of the weight, for k1 alone", "", {}, {"0.7", "0.95"}});
  reader.read("veto_ratio_min", veto_ratio_min,
              {"a token with a weight below it drops its sequence",
               "SkyRL outlier mask, verl veto",
               kAbove0,
               {"0.75"}});
  reader.read("veto_ratio_max", veto_ratio_max,
              {"a token with a weight above it drops its sequence",
               "SkyRL outlier mask, verl veto",
               {},
               {"1.3"}});
  reader.read("off_policy_mask_threshold", off_policy_mask_threshold,
              {"drops tokens with negative advantages of sequences whose mean generation - current "
               "is above it",
               "TRL `off_policy_mask_threshold`, OPSM",
               {},
               {"0.0", "0.01", "0.3"}});
  reader.read("token_masks_first", token_masks_first,
              {"weights and masks of a sequence take the tokens that `rollout_rs` keeps; vetoes "
               "come first and take all tokens",
               "SkyRL: veto, mask of tokens, weights, mask of sequences; false: verl, each of all "
               "tokens"});
}

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
