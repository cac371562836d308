// SPDX-License-Identifier: Apache-2.0
// Importance weights and rejections of `clipped_pg`, plainly from docs/objectives.md and the
// frameworks that it names.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "plain_policy.h"

namespace lossgrid::plain {

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

/// Returns the tokens that keep their policy term, also of sequences that have moved too far.
inline ByToken kept_in_the_end(const Case& of, ByToken keep, const Rows& held) {
  const auto most = of.options.maybe("off_policy_mask_threshold", std::nullopt);
  const ByToken behind = sequence_means(of, by_token(of, [&](std::size_t k) {
                                          const Token& token = of.tokens[k];
                                          return token.lacks() ? 0.0 : token.generation - held[k].x;
                                        }));
  for (std::size_t k = 0; k < keep.size(); ++k) {
    if (most && of.tokens[k].advantage < 0 && behind[k] > *most) keep[k] = 0;
  }
  return keep;
}

/// Truncation of weights by its options, which counts the weights that are out of bounds.
struct Truncation {
  explicit Truncation(const Options& options)
      : type(options.name("truncated_importance_sampling_type", "null")),
        high(options.number("truncated_importance_sampling_ratio", kInf)),
        low(options.number("truncated_importance_sampling_ratio_min", 0)) {}

  /// Returns the weight; `log_mean`: the mean log weight of its sequence.
  double apply(double log_weight, double log_mean, bool lacks) {
    double w = std::exp(log_weight);
    if (lacks || w > kMostFloat) w = 0;  // not finite in float32
    const double compared = type == "seq-mask-tis" ? std::exp(log_mean) : w;
    const bool inside = low <= compared && compared <= high;
    outside += inside ? 0 : 1;
    if (type == "tis") return std::clamp(w, low, high);
    return type == "null" || inside ? w : 0.0;
  }

  std::string type;
  double high;
  double low;
  double outside = 0;
};

inline Weights weights_of(const Case& of, const ByToken& p, const Rows& held) {
  const Options& options = of.options;
  const ByToken log_weight = by_token(of, [&](std::size_t k) {
    return of.tokens[k].lacks() ? 0.0 : p[k] - of.tokens[k].generation;
  });
  Weights out;
  ByToken counts;  // 1 for tokens that weights of sequences take
  out.keep = kept_in_the_end(of, kept_tokens(of, log_weight, &counts), held);
  const std::string level = options.name(
      "rollout_is", options.flag("sequence_level_importance_ratios") ? "sequence" : "token");
  const bool by_sequence = level != "token";
  Truncation of_tokens(options);
  Truncation of_sequences(options);
  double sequence_weights = 0;
  double trained_weights = 0;
  double trained = 0;
  for (std::int64_t i = 0; i < of.sequences; ++i) {
    if (of.problem.sample_mask[i] == 0) continue;
    // A sequence that counts and has no valid token has the weight of an empty product.
    double sum = 0;
    double taken = 0;
    bool lacks = false;
    for (std::size_t k = 0; k < of.tokens.size(); ++k) {
      if (of.tokens[k].sequence != i) continue;
      sum += counts[k] * log_weight[k];
      taken += counts[k];
      lacks = lacks || of.tokens[k].lacks();
    }
    const double mean = taken > 0 ? sum / taken : 0;
    const double w =
        of_sequences.apply(level == "geometric" ? mean : sum, mean, lacks && by_sequence);
    sequence_weights += w;
    trained_weights += of.trained[i] > 0 ? w : 0;
    trained += of.trained[i] > 0 ? 1 : 0;
    for (std::size_t k = 0; k < of.tokens.size(); ++k) {
      if (of.tokens[k].sequence != i) continue;
      const double own = of_tokens.apply(log_weight[k], mean, of.tokens[k].lacks());
      out.weight.push_back(by_sequence ? w : own);
    }
  }
  if (of.problem.spec.global_valid_seqs > 0) trained = of.valid_sequences();
  const double token_mean_weight = sum_of(out.weight) / of.valid_tokens();
  out.mean_weight = by_sequence ? sequence_weights / of.valid_sequences() : token_mean_weight;
  if (of_tokens.type != "null") {
    out.share_out_of_bounds = by_sequence || of_tokens.type == "seq-mask-tis"
                                  ? of_sequences.outside / of.valid_sequences()
                                  : of_tokens.outside / of.valid_tokens();
  }
  if (options.flag("rollout_is_batch_normalize")) {
    const double mean = by_sequence ? trained_weights / trained : token_mean_weight;
    for (double& w : out.weight) w = mean > 1e-8 ? w / mean : w;
  }
  if (!options.flag("use_importance_sampling_correction")) {
    out.weight.assign(out.weight.size(), 1.0);
  }
  return out;
}

}  // namespace lossgrid::plain
