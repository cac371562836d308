// SPDX-License-Identifier: Apache-2.0
// Policies, ratios, importance weights and rejections of `clipped_pg`, plainly from
// docs/objectives.md and the frameworks that it names. Numbers by valid token; a token of a
// sequence that has one number for all has that.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "plain_losses.h"

namespace lossgrid::plain {

using ByToken = std::vector<double>;

/// Returns for each token the sum over the tokens of its sequence.
inline ByToken sequence_sums(const Case& of, const ByToken& terms) {
  std::vector<double> sums(static_cast<std::size_t>(of.sequences), 0.0);
  for (std::size_t k = 0; k < terms.size(); ++k) sums[of.tokens[k].sequence] += terms[k];
  return by_token(of, [&](std::size_t k) { return sums[of.tokens[k].sequence]; });
}

inline ByToken sequence_means(const Case& of, const ByToken& terms) {
  ByToken sums = sequence_sums(of, terms);
  for (std::size_t k = 0; k < sums.size(); ++k) sums[k] /= of.trained[of.tokens[k].sequence];
  return sums;
}

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

}  // namespace lossgrid::plain
