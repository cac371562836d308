// SPDX-License-Identifier: Apache-2.0
// Tokens that `clipped_pg` rejects, plainly from docs/objectives.md and the frameworks that it
// names.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "impls/objectives/clipped_pg/plain_sequences.h"
#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {

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

inline std::vector<OptionCase> rejection_cases() {
  return {{"rollout_rs=token_k1 rollout_rs_threshold=1.1|2 rollout_rs_threshold_min=0.95"},
          {"rollout_rs=token_k2 rollout_rs_threshold=0.01|1"},
          {"rollout_rs=token_k3 rollout_rs_threshold=0.01|1"},
          {"rollout_rs=seq_sum_k1 rollout_rs_threshold=1.3|9 rollout_rs_threshold_min=1",
           "lens=4+3+5+4+3+5+4+6+3+4 sample_mask=1110111111 vocab=3"},
          {"rollout_rs=seq_sum_k2 rollout_rs_threshold=0.05|9"},
          {"rollout_rs=seq_sum_k3 rollout_rs_threshold=0.05|9"},
          {"rollout_rs=seq_mean_k1 rollout_rs_threshold=1.1|9 rollout_rs_threshold_min=1",
           "lens=4+3+5+4+3+5+4+6+3+4 sample_mask=1110111111 vocab=3"},
          {"rollout_rs=seq_mean_k2 rollout_rs_threshold=0.01|9"},
          {"rollout_rs=seq_mean_k3 rollout_rs_threshold=0.01|9"},
          {"rollout_rs=seq_max_k2 rollout_rs_threshold=0.02|9"},
          {"rollout_rs=seq_max_k3 rollout_rs_threshold=0.02|9"},
          {"veto_ratio_min=0.9 veto_ratio_max=1.3"},
          {"off_policy_mask_threshold=0.02"},
          {"rollout_rs=token_k2 rollout_rs_threshold=0.01|1 token_masks_first=true "
           "use_importance_sampling_correction=true rollout_is=geometric"}};
}

}  // namespace lossgrid::plain
