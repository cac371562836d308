// SPDX-License-Identifier: Apache-2.0
// Importance weights of `clipped_pg`, plainly from docs/objectives.md and the frameworks that it
// names.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/plain_sequences.h"
#include "impls/objectives/clipped_pg/rejection/plain_rejection.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {

/// Importance weights of previous over generating policy, and the tokens that keep their policy
/// term. Constants.
struct Weights {
  ByToken weight;
  ByToken keep;
  double mean_weight = 0;                     // metric sampling_importance_ratio
  std::optional<double> share_out_of_bounds;  // metric is_oob_ratio
};

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

inline std::vector<OptionCase> weight_cases() {
  return {
      {"use_importance_sampling_correction=true"},
      {"use_importance_sampling_correction=true truncated_importance_sampling_type=tis|icepop "
       "truncated_importance_sampling_ratio=1.05|1.3 truncated_importance_sampling_ratio_min=0.95"},
      {"use_importance_sampling_correction=true truncated_importance_sampling_type=icepop|tis "
       "truncated_importance_sampling_ratio=1.1|1.3 "
       "truncated_importance_sampling_ratio_min=0.9|0.99"},
      {"use_importance_sampling_correction=true "
       "truncated_importance_sampling_type=seq-mask-tis|tis "
       "truncated_importance_sampling_ratio=1.05|3 "
       "truncated_importance_sampling_ratio_min=1|0.2",
       "lens=4+3+5+4+3+5+4+6+3+4 sample_mask=1110111111 vocab=3"},
      {"use_importance_sampling_correction=true rollout_is=sequence "
       "truncated_importance_sampling_type=tis|icepop truncated_importance_sampling_ratio=1.1|2 "},
      {"use_importance_sampling_correction=true rollout_is=geometric"},
      {"use_importance_sampling_correction=true sequence_level_importance_ratios=true "
       "token_level_loss=false rollout_is=token"},
      {"use_importance_sampling_correction=true rollout_is_batch_normalize=true "
       "truncated_importance_sampling_type=tis|icepop truncated_importance_sampling_ratio=1.1|2"},
      {"use_importance_sampling_correction=true rollout_is_batch_normalize=true "
       "rollout_is=sequence"},
      {"use_importance_sampling_correction=true nonfinite_generation_logprobs=zero_weight|drop"},
      {"use_importance_sampling_correction=true nonfinite_generation_logprobs=zero_weight|drop "
       "rollout_is=sequence"},
      {"", "objective.nonfinite_generation_logprobs=drop"}};
}

}  // namespace lossgrid::plain
