// SPDX-License-Identifier: Apache-2.0
// RatioOptions: the options of `clipped_pg` about the ratio of the current to the proximal policy,
// and its clip bounds. nvcc compiles this header.
#pragma once

#include <cmath>
#include <optional>

#include "impls/objectives/objective_options.h"

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
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

inline constexpr double kLargestPolicyVersion = 16777216;
inline constexpr NumberRule kPolicyVersion{
    "must be a whole number in [0, 2^24]",
    [](double x) { return x >= 0 && x <= kLargestPolicyVersion && x == std::floor(x); }};

inline void RatioOptions::read(const OptionReader& reader) {
  reader.read("ratio_clip_min", ratio_clip_min,
              {"clip range of the ratio, from 1 - min",
               "verl `clip_ratio_low`",
               kShare,
               {"0.1", "0.003", "0.0"}});
  reader.read("ratio_clip_max", ratio_clip_max,
              {"clip range of the ratio, to 1 + max",
               "verl `clip_ratio_high`",
               kNotNegative,
               {"0.28", "0.01", "1.1"}});
  reader.read("ratio_clip_c", ratio_clip_c,
              {"dual clip: bounds the loss of negative advantages",
               "verl `clip_ratio_c`, TRL `delta` (above 1 + max)",
               kAbove1,
               {"1.4", "3.0"}});
  reader.read("disable_ppo_ratio", disable_ppo_ratio,
              {"log-probability instead of the ratio", "REINFORCE; verl `gpg`"});
  reader.read("force_on_policy_ratio", force_on_policy_ratio,
              {"takes the current log-probabilities as the previous ones: the ratio is 1, with "
               "`disable_ppo_ratio` too"});
  reader.read("log_ratio_min", log_ratio_min,
              {"lower bound of the logarithm of a ratio before its exponential, without gradient "
               "beyond it",
               "verl, SkyRL, OpenRLHF -20; torchtitan -10; none in NeMo-RL, TRL, AReaL",
               kBelow0,
               {"-0.3", "-10.0"}});
  reader.read(
      "log_ratio_max", log_ratio_max,
      {"upper bound of the logarithm of a ratio before its exponential, without gradient beyond it",
       "verl, SkyRL, OpenRLHF 20; torchtitan 10; none in NeMo-RL, TRL, AReaL",
       kAbove0,
       {"0.1", "0.25", "10.0"}});
  reader.read("use_cispo", use_cispo,
              {"clipped ratio as a weight without gradient", "CISPO, MiniMax-M1"});
  reader.read(
      "cispo_bounds", cispo_bounds, {"offset", "upper", "absolute"},
      {"clip range of CISPO: `offset` 1 - min to 1 + max; `upper` at most max; `absolute` min "
       "to max",
       "verl, SkyRL; TRL, Liger; Tinker"});
  reader.read("sequence_level_importance_ratios", sequence_level_importance_ratios,
              {"one ratio for a sequence, the geometric mean of its tokens'", "GSPO"});
  reader.read("gspo_token", gspo_token,
              {"the ratio of the sequence with the gradient of the token's own log-probability "
               "alone; verl has `log_ratio_max=10`",
               "GSPO-token: verl, SkyRL `gspo`"});
  reader.read("prox_logp_method", prox_logp_method, {"recompute", "loglinear", "linear"},
              {"the [proximal policy](#approximated-proximal-policy), to which the ratio is taken. "
               "`recompute`: the input `prev_logprobs`; the others: between the generating and the "
               "current policy by their versions, without gradient",
               "AReaL `prox_logp_method`; linear: its `ProxApproxMethod`"});
  reader.read("current_version", current_version,
              {"version of the current policy, for `loglinear` and `linear`",
               "AReaL `current_version`",
               kPolicyVersion,
               {"5.0"}});
}

/// Throw bad_input for a combination that is not allowed.
void require_ratios_fit(const ClippedPgOptions& options);
void require_proximal_fits(const ClippedPgOptions& options);

/// Adds the needs of the ratio: the previous policy, or versions.
void add_ratio_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

/// Adds the distances at which the logarithm of a ratio meets its bounds.
void add_ratio_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
