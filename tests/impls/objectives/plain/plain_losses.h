// SPDX-License-Identifier: Apache-2.0
// Aggregation of tokens and the losses of single tokens, plainly from docs/objectives.md: `nll`,
// `on_policy_distill`, `distill` and `value`.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plain_case.h"

namespace lossgrid::plain {

/// Metrics by name; nothing for one without elements.
using Numbers = std::map<std::string, std::optional<double>>;

inline double sum_of(const std::vector<double>& terms) {
  double sum = 0;
  for (const double term : terms) sum += term;
  return sum;
}

/// Returns f(k) of every valid token.
template <class F>
std::vector<double> by_token(const Case& of, const F& f) {
  std::vector<double> out;
  for (std::size_t k = 0; k < of.tokens.size(); ++k) out.push_back(f(k));
  return out;
}

/// Returns the mean over the valid tokens of the global batch; nothing without any.
template <class F>
std::optional<double> token_mean(const Case& of, const F& f) {
  if (of.tokens.empty()) return std::nullopt;
  return sum_of(by_token(of, f)) / of.valid_tokens();
}

/// Returns the weight of each token in a loss, by the table of "Aggregation". `packs` [S]: the pack
/// of each sequence, of `pack_count`.
inline std::vector<double> token_weights(const Case& of, const std::vector<std::int64_t>& packs,
                                         std::int64_t pack_count) {
  const std::string mode = of.options.name("loss_agg_mode", "null");
  const bool masked_too = of.options.flag("count_masked_sequences");
  const auto n = [&](std::size_t k) { return of.trained[of.tokens[k].sequence]; };
  const double all = of.valid_tokens();
  double sequences = 0;
  for (const double tokens : of.trained) sequences += masked_too || tokens > 0 ? 1 : 0;
  if (of.problem.spec.global_valid_seqs > 0) sequences = of.valid_sequences();
  // Tokens and number of groups of sequences.
  const auto grouped = [&](const auto& group_of, std::int64_t groups) {
    std::vector<double> tokens(static_cast<std::size_t>(groups), 0.0);
    for (const Token& token : of.tokens) tokens[group_of(token.sequence)] += 1;
    double count = 0;
    for (const double of_group : tokens) count += masked_too || of_group > 0 ? 1 : 0;
    return by_token(
        of, [&](std::size_t k) { return 1 / (count * tokens[group_of(of.tokens[k].sequence)]); });
  };
  if (mode == "prompt-mean") {
    const auto size = static_cast<std::int64_t>(of.options.number("prompt_group_size", 1));
    return grouped([&](std::int64_t i) { return i / size; }, (of.sequences + size - 1) / size);
  }
  if (mode == "token-mean-legacy") {
    return grouped([&](std::int64_t i) { return packs[i]; }, pack_count);
  }
  const double scale = of.options.number("loss_scale_factor", 1);
  const bool token_level = of.options.flag("token_level_loss", true);
  return by_token(of, [&](std::size_t k) {
    if (mode == "token-sum") return 1.0;
    if (mode == "seq-mean-token-mean") return 1 / (sequences * n(k));
    if (mode == "seq-mean-token-sum") return 1 / sequences;
    if (mode == "seq-mean-token-sum-norm") return 1 / (sequences * scale);
    if (mode == "token-mean" || token_level) return 1 / all;
    return 1 / (of.valid_sequences() * n(k));
  });
}

inline double weighted(const std::vector<double>& weights, const std::vector<double>& terms) {
  double sum = 0;
  for (std::size_t k = 0; k < terms.size(); ++k) sum += weights[k] * terms[k];
  return sum;
}

inline double nll_loss(const Case& of, const Rows& live, const Rows& held) {
  const double e = of.options.number("label_smoothing", 0);
  const double c = of.options.number("z_loss_coefficient", 0);
  const bool dft = of.options.name("loss_type", "nll") == "dft";
  return weighted(token_weights(of, {}, 0), by_token(of, [&](std::size_t k) {
                    const Row& row = live[k];
                    if (dft) return -std::exp(held[k].x) * row.x;
                    return -(1 - e) * row.x - e * row.mean_logprob + c * row.lse * row.lse;
                  }));
}

inline double on_policy_distill_loss(const Case& of, const Rows& live, const Rows& held) {
  const std::string mode = of.options.name("loss_mode", "k3");
  const std::optional<double> most = of.options.maybe("loss_max_clamp", 10.0);
  return *token_mean(of, [&](std::size_t k) {
    const double d = live[k].x - of.tokens[k].teacher;
    const double fixed = held[k].x - of.tokens[k].teacher;
    if (mode == "score") return (most ? std::clamp(fixed, -*most, *most) : fixed) * live[k].x;
    const double loss = mode == "abs"  ? std::abs(d)
                        : mode == "k2" ? d * d / 2
                                       : std::exp(-d) - 1 + d;
    return most ? std::min(loss, *most) : loss;
  });
}

inline double value_loss(const Case& of, const Rows& live) {
  const bool huber = of.options.name("loss_type", "mse") == "huber";
  const double delta = of.options.number("huber_delta", 10);
  const std::optional<double> range = of.options.maybe("cliprange_value", std::nullopt);
  const auto loss_of = [&](double d) {
    return huber && std::abs(d) > delta ? delta * (std::abs(d) - delta / 2) : d * d / 2;
  };
  return of.options.number("scale", 1) *
         weighted(token_weights(of, {}, 0), by_token(of, [&](std::size_t k) {
                    const Token& token = of.tokens[k];
                    const double alone = loss_of(live[k].value - token.returns);
                    if (!range) return alone;
                    const double near = std::clamp(live[k].value, token.old_value - *range,
                                                   token.old_value + *range);
                    return std::max(alone, loss_of(near - token.returns));
                  }));
}

inline Numbers value_metrics(const Case& of, const Rows& rows) {
  Numbers out;
  const auto value = [&](std::size_t k) { return rows[k].value; };
  const auto returns = [&](std::size_t k) { return of.tokens[k].returns; };
  const auto square = [](double x) { return x * x; };
  const std::optional<double> range = of.options.maybe("cliprange_value", std::nullopt);
  out["returns_mean"] = token_mean(of, returns);
  out["returns_sq_mean"] = token_mean(of, [&](std::size_t k) { return square(returns(k)); });
  out["residual_sq_mean"] =
      token_mean(of, [&](std::size_t k) { return square(returns(k) - value(k)); });
  out["values_mean"] = token_mean(of, value);
  out["vf_clipfrac"] = token_mean(of, [&](std::size_t k) {
    if (!range) return 0.0;
    const double near =
        std::clamp(value(k), of.tokens[k].old_value - *range, of.tokens[k].old_value + *range);
    return std::abs(near - returns(k)) > std::abs(value(k) - returns(k)) ? 1.0 : 0.0;
  });
  const std::vector<double> values = by_token(of, value);
  out["values_min"] = *std::min_element(values.begin(), values.end());
  out["values_max"] = *std::max_element(values.begin(), values.end());
  const auto variance = [&](const auto& number) {
    const double mean = *token_mean(of, number);
    return *token_mean(of, [&](std::size_t k) { return square(number(k) - mean); });
  };
  out["explained_variance"] =
      1 - variance([&](std::size_t k) { return returns(k) - value(k); }) / variance(returns);
  return out;
}

}  // namespace lossgrid::plain
