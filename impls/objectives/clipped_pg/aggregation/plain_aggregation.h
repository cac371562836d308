// SPDX-License-Identifier: Apache-2.0
// The weight of each token in a loss, plainly from docs/objectives.md ("Aggregation").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "impls/objectives/plain/plain_case.h"
#include "impls/objectives/plain/plain_numbers.h"
#include "impls/objectives/plain/plain_objective.h"

namespace lossgrid::plain {

/// Returns the weight of each token in a loss, by the table of "Aggregation".
inline std::vector<double> token_weights(const Case& of) {
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
    return grouped([&](std::int64_t i) { return of.packs.of_sequence[i]; }, of.packs.count);
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

inline std::vector<OptionCase> aggregation_cases() {
  return {{"loss_agg_mode=token-mean|seq-mean-token-mean", "objective.token_level_loss=false"},
          {"loss_agg_mode=token-sum entropy_coefficient=0.2"},
          {"loss_agg_mode=seq-mean-token-mean reference_policy_kl_penalty=0.3"},
          {"loss_agg_mode=seq-mean-token-mean count_masked_sequences=true"},
          {"loss_agg_mode=seq-mean-token-sum count_masked_sequences=true"},
          {"loss_agg_mode=seq-mean-token-sum"},
          {"loss_agg_mode=seq-mean-token-mean", "global_valid_seqs=9"},
          {"token_level_loss=false entropy_coefficient=0.1",
           "global_valid_toks=31 global_valid_seqs=8"},
          {"reference_policy_kl_penalty=0.2", "global_valid_toks=31"},
          {"loss_agg_mode=seq-mean-token-sum-norm|seq-mean-token-sum loss_scale_factor=5"},
          {"loss_agg_mode=prompt-mean prompt_group_size=2|1"},
          {"loss_agg_mode=prompt-mean prompt_group_size=1|2 count_masked_sequences=true"},
          {"loss_agg_mode=token-mean-legacy", "microbatches=3"},
          {"loss_agg_mode=token-mean-legacy count_masked_sequences=true", "microbatches=7"}};
}

}  // namespace lossgrid::plain
