// SPDX-License-Identifier: Apache-2.0
// RejectionOptions: the options of `clipped_pg` by which tokens or sequences lose their policy
// term, by their log weights. nvcc compiles this header.
#pragma once

#include <optional>

namespace lossgrid {

struct ClippedPgOptions;
class OptionReader;
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

/// Throws bad_input for a combination that is not allowed.
void require_rejection_fits(const ClippedPgOptions& options);

/// Adds the log weights at which tokens, or sequences of equal ones, are rejected.
void add_rejection_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
