// SPDX-License-Identifier: Apache-2.0
// RejectionOptions: the options of `clipped_pg` by which tokens or sequences lose their policy
// term, by their log weights. nvcc compiles this header.
#pragma once

#include <optional>

#include "impls/objectives/objective_options.h"

namespace lossgrid {

struct ClippedPgOptions;
struct PolicyEdges;

/// Rule by which tokens or sequences lose their policy term, by their log weights.
enum class RejectionLevel { none, token, sequence_sum, sequence_mean, sequence_max };
enum class RejectionStatistic {
  k1,  // the log weight w: e^w is to be in [threshold_min, threshold]
  k2,  // w^2 / 2, at most the threshold
  k3,  // e^w - 1 - w, at most the threshold
};

struct RejectionOptions {
  RejectionLevel rejection_level = RejectionLevel::none;  // both of rollout_rs
  RejectionStatistic rejection_statistic = RejectionStatistic::k1;
  std::optional<double> rollout_rs_threshold;
  std::optional<double> rollout_rs_threshold_min;
  std::optional<double> veto_ratio_min;  // a token with a weight outside of these bounds takes
  std::optional<double> veto_ratio_max;  // its sequence with it
  std::optional<double> off_policy_mask_threshold;
  bool token_masks_first = false;  // sums over sequences are those of tokens that are not rejected

  void read(const OptionReader& reader);

  constexpr bool vetoes() const { return veto_ratio_min || veto_ratio_max; }
  /// True if a rule drops whole sequences by the weights of their tokens.
  constexpr bool rejects_sequences() const {
    return vetoes() ||
           (rejection_level != RejectionLevel::none && rejection_level != RejectionLevel::token);
  }
  /// True if tokens may lose their policy term.
  constexpr bool rejects() const {
    return rejects_sequences() || rejection_level == RejectionLevel::token ||
           off_policy_mask_threshold;
  }
};

/// A name of rollout_rs, by its place among them.
struct RejectionName {
  const char* name;
  RejectionLevel level;
  RejectionStatistic statistic;
};

inline constexpr RejectionName kRejections[] = {
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

inline void RejectionOptions::read(const OptionReader& reader) {
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

/// Throws bad_input for a combination that is not allowed.
void require_rejection_fits(const ClippedPgOptions& options);

/// Adds the log weights at which tokens, or sequences of equal ones, are rejected.
void add_rejection_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
