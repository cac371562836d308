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

/// Importance weights of previous over generating policy, and the tokens that keep their policy
/// term. Constants.
struct Weights {
  ByToken weight;
  ByToken keep;
  double mean_weight = 0;                     // metric sampling_importance_ratio
  std::optional<double> share_out_of_bounds;  // metric is_oob_ratio
};

/// Returns the tokens that `rollout_rs` and vetoes keep. `log_weight`: p - q, 0 for a token that
/// lacks q, which no rule of tokens drops.
inline ByToken kept_tokens(const Case& of, const ByToken& log_weight, ByToken* by_token_rule) {
  const Options& options = of.options;
  const std::string rule = options.name("rollout_rs", "null");
  const bool first = options.flag("token_masks_first");
  const double high = options.number("rollout_rs_threshold", kInf);
  const double low = options.number("rollout_rs_threshold_min", 0);
  const std::string statistic = rule.substr(rule.find_last_of('_') + 1);
  ByToken numbers;
  for (const double r : log_weight) {
    numbers.push_back(statistic == "k1" ? r : statistic == "k2" ? r * r / 2 : std::exp(r) - 1 - r);
  }
  if (rule.starts_with("seq_sum")) numbers = sequence_sums(of, numbers);
  if (rule.starts_with("seq_mean")) numbers = sequence_means(of, numbers);
  if (rule.starts_with("seq_max")) {
    const ByToken of_tokens = numbers;
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      for (std::size_t j = 0; j < numbers.size(); ++j) {
        if (of.tokens[j].sequence == of.tokens[k].sequence) {
          numbers[k] = std::max(numbers[k], of_tokens[j]);
        }
      }
    }
  }
  ByToken keep;
  for (const double number : numbers) {
    const double compared = statistic == "k1" ? std::exp(number) : number;
    const bool is_free = rule.starts_with("token") && of.tokens[keep.size()].lacks();
    const bool inside = compared <= high && (statistic != "k1" || compared >= low);
    keep.push_back(rule == "null" || is_free || inside ? 1 : 0);
  }
  *by_token_rule = first ? keep : ByToken(keep.size(), 1.0);
  const double veto_low = options.maybe("veto_ratio_min", std::nullopt).value_or(0);
  const double veto_high = options.maybe("veto_ratio_max", std::nullopt).value_or(kInf);
  ByToken vetoes;
  for (std::size_t k = 0; k < keep.size(); ++k) {
    const double w = std::exp(log_weight[k]);
    vetoes.push_back(!of.tokens[k].lacks() && (w < veto_low || w > veto_high) ? 1 : 0);
  }
  vetoes = sequence_sums(of, vetoes);
  for (std::size_t k = 0; k < keep.size(); ++k) keep[k] = vetoes[k] > 0 ? 0 : keep[k];
  return keep;
}

inline Weights weights_of(const Case& of, const ByToken& p, const Rows& held) {
  const Options& options = of.options;
  const ByToken log_weight = by_token(of, [&](std::size_t k) {
    return of.tokens[k].lacks() ? 0.0 : p[k] - of.tokens[k].generation;
  });
  const ByToken lacking = sequence_sums(
      of, by_token(of, [&](std::size_t k) { return of.tokens[k].lacks() ? 1.0 : 0.0; }));
  Weights out;
  ByToken counts;  // 1 for tokens that weights of sequences take
  out.keep = kept_tokens(of, log_weight, &counts);
  const auto off_policy = options.maybe("off_policy_mask_threshold", std::nullopt);
  const ByToken behind = sequence_means(of, by_token(of, [&](std::size_t k) {
                                          const Token& token = of.tokens[k];
                                          return token.lacks() ? 0.0 : token.generation - held[k].x;
                                        }));
  for (std::size_t k = 0; k < out.keep.size(); ++k) {
    if (off_policy && of.tokens[k].advantage < 0 && behind[k] > *off_policy) out.keep[k] = 0;
  }
  const std::string level = options.name(
      "rollout_is", options.flag("sequence_level_importance_ratios") ? "sequence" : "token");
  const bool corrects = options.flag("use_importance_sampling_correction");
  const ByToken sums =
      sequence_sums(of, by_token(of, [&](std::size_t k) { return counts[k] * log_weight[k]; }));
  const ByToken taken = sequence_sums(of, counts);
  const std::string type = options.name("truncated_importance_sampling_type", "null");
  const double high = options.number("truncated_importance_sampling_ratio", kInf);
  const double low = options.number("truncated_importance_sampling_ratio_min", 0);
  // Returns the truncated weight, and adds to `outside` what is out of bounds.
  const auto truncated = [&](double log_of_weight, double log_mean, bool lacks, double& outside) {
    double w = std::exp(log_of_weight);
    if (lacks || w > kMostFloat) w = 0;  // not finite in float32
    const double compared = type == "seq-mask-tis" ? std::exp(log_mean) : w;
    const bool inside = low <= compared && compared <= high;
    outside += inside ? 0 : 1;
    if (type == "tis") return std::clamp(w, low, high);
    return type == "null" || inside ? w : 0.0;
  };
  double tokens_out = 0;
  // A sequence that counts and has no valid token has the weight of an empty product.
  double sequences_out = 0;
  double sequence_weights = 0;
  double trained_weights = 0;
  for (std::int64_t i = 0; i < of.sequences; ++i) {
    if (of.problem.sample_mask[i] == 0) continue;
    double sum = 0;
    double mean = 0;
    bool lacks = false;
    for (std::size_t k = 0; k < of.tokens.size(); ++k) {
      if (of.tokens[k].sequence != i) continue;
      sum = sums[k];
      mean = taken[k] > 0 ? sums[k] / taken[k] : 0;
      lacks = lacks || of.tokens[k].lacks();
    }
    const double w = truncated(level == "geometric" ? mean : sum, mean, lacks && level != "token",
                               sequences_out);
    sequence_weights += w;
    trained_weights += of.trained[i] > 0 ? w : 0;
    for (std::size_t k = 0; k < of.tokens.size(); ++k) {
      if (of.tokens[k].sequence != i) continue;
      out.weight.push_back(
          level == "token" ? truncated(log_weight[k], mean, of.tokens[k].lacks(), tokens_out) : w);
    }
  }
  double trained = 0;
  for (const double n : of.trained) trained += n > 0 ? 1 : 0;
  if (of.problem.spec.global_valid_seqs > 0) trained = of.valid_sequences();
  const bool by_sequence = level != "token";
  out.mean_weight = by_sequence ? sequence_weights / of.valid_sequences()
                                : sum_of(out.weight) / of.valid_tokens();
  if (type != "null") {
    out.share_out_of_bounds = by_sequence || type == "seq-mask-tis"
                                  ? sequences_out / of.valid_sequences()
                                  : tokens_out / of.valid_tokens();
  }
  if (options.flag("rollout_is_batch_normalize")) {
    const double mean =
        by_sequence ? trained_weights / trained : sum_of(out.weight) / of.valid_tokens();
    for (double& w : out.weight) w = mean > 1e-8 ? w / mean : w;
  }
  if (!corrects) out.weight.assign(out.weight.size(), 1.0);
  return out;
}

}  // namespace lossgrid::plain
