// SPDX-License-Identifier: Apache-2.0
// RatioOptions: the options of `clipped_pg` about the ratio of the current to the proximal policy,
// and its clip bounds. nvcc compiles this header.
#pragma once

#include <optional>

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
class OptionReader;
struct PolicyEdges;

/// Source of the proximal policy, to which the ratio is taken.
enum class ProximalPolicy {
  recompute,  // prev_logprobs
  loglinear,  // between the generating and the current policy, by logarithms
  linear,     // by probabilities
};

/// Meaning of ratio_clip_min and ratio_clip_max for CISPO.
enum class CispoBounds {
  offset,    // 1 - min and 1 + max
  upper,     // max, and no lower bound
  absolute,  // min and max
};

struct RatioOptions {
  double ratio_clip_min = 0.2;
  double ratio_clip_max = 0.2;
  std::optional<double> ratio_clip_c;  // dual clip
  bool disable_ppo_ratio = false;      // REINFORCE
  bool force_on_policy_ratio = false;  // previous := current log-probabilities
  bool use_cispo = false;              // a clipped ratio that weighs, without gradient
  CispoBounds cispo_bounds = CispoBounds::offset;
  bool sequence_level_importance_ratios = false;  // GSPO
  bool gspo_token = false;  // its ratio has the gradient of the token's own log-probability
  std::optional<double> log_ratio_min;  // bounds of the logarithm of a ratio, without gradient
  std::optional<double> log_ratio_max;  // beyond them
  ProximalPolicy prox_logp_method = ProximalPolicy::recompute;
  std::optional<double> current_version;  // of the policy that is trained, for the others

  void read(const OptionReader& reader);

  /// True if all tokens of a sequence share one ratio.
  constexpr bool sequence_ratio() const { return sequence_level_importance_ratios && has_ratio(); }
  /// True if the ratio is one of probabilities.
  constexpr bool has_ratio() const { return !force_on_policy_ratio && !disable_ppo_ratio; }
  /// Clip bounds of the ratio.
  constexpr double lowest_ratio() const {
    if (cispo_bounds == CispoBounds::offset) return 1 - ratio_clip_min;
    return cispo_bounds == CispoBounds::upper ? 0 : ratio_clip_min;
  }
  constexpr double highest_ratio() const {
    return cispo_bounds == CispoBounds::offset ? 1 + ratio_clip_max : ratio_clip_max;
  }
  /// True if the proximal policy is made of the generating and the current one.
  constexpr bool approximates_proximal() const {
    return prox_logp_method != ProximalPolicy::recompute;
  }
};

/// Throw bad_input for a combination that is not allowed.
void require_ratios_fit(const ClippedPgOptions& options);
void require_proximal_fits(const ClippedPgOptions& options);

/// Adds the needs of the ratio: the previous policy, or versions.
void add_ratio_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

/// Adds the distances at which the logarithm of a ratio meets its bounds.
void add_ratio_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
