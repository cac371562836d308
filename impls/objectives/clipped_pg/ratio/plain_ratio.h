// SPDX-License-Identifier: Apache-2.0
// Proximal policy, ratios and clip range of `clipped_pg`, plainly from docs/objectives.md and the
// frameworks that it names.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "impls/objectives/clipped_pg/plain_sequences.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {

/// Returns p, the log-probabilities by the policy that ratios are taken to. None has a gradient.
inline ByToken previous_policy(const Case& of, const Rows& held) {
  const std::string method = of.options.name("prox_logp_method", "recompute");
  const double c = of.options.number("current_version", 0);
  const bool forced = of.options.flag("force_on_policy_ratio");
  return by_token(of, [&](std::size_t k) {
    const Token& token = of.tokens[k];
    const double v = token.version;
    const double q = token.generation;
    const double a = v < 0 || v >= c ? 0 : (c - 1 - v) / (c - v);
    if (forced) return held[k].x;
    if (method == "loglinear") return q + a * (held[k].x - q);
    if (method == "linear") {
      return std::log((1 - a) * std::exp(q) + a * std::exp(held[k].x) + 1e-10);
    }
    return token.prev;
  });
}

/// Returns the logarithm of a ratio within its bounds, beyond which it is constant.
inline double bounded(const Options& options, double log_ratio) {
  const auto low = options.maybe("log_ratio_min", std::nullopt);
  const auto high = options.maybe("log_ratio_max", std::nullopt);
  return std::clamp(log_ratio, low.value_or(-kInf), high.value_or(kInf));
}

/// Returns the ratios: of tokens, of sequences, or the log-probabilities in their place.
inline ByToken ratios(const Case& of, const ByToken& p, const Rows& live, const Rows& held) {
  const auto distance = [&](const Rows& rows) {
    return by_token(of, [&](std::size_t k) { return rows[k].x - p[k]; });
  };
  ByToken logs = distance(live);
  if (of.options.flag("sequence_level_importance_ratios")) {
    if (of.options.flag("gspo_token")) {
      logs = sequence_means(of, distance(held));
      for (std::size_t k = 0; k < logs.size(); ++k) logs[k] += live[k].x - held[k].x;
    } else {
      logs = sequence_means(of, logs);
    }
  }
  return by_token(of, [&](std::size_t k) {
    if (of.options.flag("force_on_policy_ratio")) return std::exp(live[k].x - held[k].x);
    if (of.options.flag("disable_ppo_ratio")) return live[k].x;
    return std::exp(bounded(of.options, logs[k]));
  });
}

/// Returns the clip range of a ratio.
inline std::pair<double, double> clip_range(const Options& options) {
  const double low = options.number("ratio_clip_min", 0.2);
  const double high = options.number("ratio_clip_max", 0.2);
  const std::string bounds = options.name("cispo_bounds", "offset");
  if (options.flag("use_cispo") && bounds == "upper") return {-kInf, high};
  if (options.flag("use_cispo") && bounds == "absolute") return {low, high};
  return {1 - low, 1 + high};
}

/// Adds mean and ends of the ratios, and of the clipped ones.
inline void add_ratios(const Case& of, const ByToken& rho, Numbers& metrics) {
  const auto [least, largest] = clip_range(of.options);
  metrics["probs_ratio"] = token_mean(of, [&](std::size_t k) { return rho[k]; });
  ByToken clipped = rho;
  for (double& one : clipped) one = std::clamp(one, least, largest);
  metrics["probs_ratio_clamped"] = token_mean(of, [&](std::size_t k) { return clipped[k]; });
  metrics["probs_ratio_min"] = *std::min_element(rho.begin(), rho.end());
  metrics["probs_ratio_max"] = *std::max_element(rho.begin(), rho.end());
  metrics["probs_ratio_clamped_min"] = *std::min_element(clipped.begin(), clipped.end());
  metrics["probs_ratio_clamped_max"] = *std::max_element(clipped.begin(), clipped.end());
}

inline std::vector<OptionCase> ratio_cases() {
  return {{"ratio_clip_min=0.05 ratio_clip_max=0.35"},
          {"ratio_clip_c=1.1 ratio_clip_max=0.02", "drift=far"},
          {"disable_ppo_ratio=true token_level_loss=false"},
          {"force_on_policy_ratio=true"},
          {"log_ratio_min=-0.15 log_ratio_max=0.1"},
          {"use_cispo=true ratio_clip_min=0.1 ratio_clip_max=0.3"},
          {"use_cispo=true cispo_bounds=upper ratio_clip_max=1.1"},
          {"use_cispo=true cispo_bounds=absolute ratio_clip_min=0.9 ratio_clip_max=1.1"},
          {"token_level_loss=false sequence_level_importance_ratios=true"},
          {"token_level_loss=false sequence_level_importance_ratios=true log_ratio_max=0.05 "
           "log_ratio_min=-0.05"},
          {"token_level_loss=false sequence_level_importance_ratios=true gspo_token=true "
           "ratio_clip_min=0.02 ratio_clip_max=0.03"},
          {"prox_logp_method=loglinear current_version=7|6"},
          {"prox_logp_method=linear current_version=7|6 use_importance_sampling_correction=true"}};
}

}  // namespace lossgrid::plain
