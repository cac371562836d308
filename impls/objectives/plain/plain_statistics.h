// SPDX-License-Identifier: Apache-2.0
// Statistics of a step and metrics about predictions, plainly from docs/objectives.md ("Statistics
// of a step", "Predictions"): over the valid tokens, or sequences with one.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "impls/objectives/plain/plain_numbers.h"

namespace lossgrid::plain {

/// Adds average, smallest and largest of numbers.
inline void add_spread(const std::string& name, const std::vector<double>& numbers, Numbers& out) {
  out[name + "_avg"] = sum_of(numbers) / static_cast<double>(numbers.size());
  out[name + "_min"] = *std::min_element(numbers.begin(), numbers.end());
  out[name + "_max"] = *std::max_element(numbers.begin(), numbers.end());
}

inline void add_statistics(const Case& of, const Rows& rows, Numbers& out) {
  const auto add = [&](const char* name, const auto& number) {
    std::vector<double> numbers;
    for (const Row& row : rows) numbers.push_back(number(row));
    add_spread(name, numbers, out);
  };
  add("loss", [](const Row& row) { return -row.x; });
  add("entropy", [](const Row& row) { return row.entropy; });
  add("vocab_min_logits", [](const Row& row) { return row.least; });
  add("vocab_max_logits", [](const Row& row) { return row.largest; });
  std::vector<double> perplexities;
  for (std::int64_t i = 0; i < of.sequences; ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      sum += of.tokens[k].sequence == i ? rows[k].x : 0;
    }
    if (of.trained[i] > 0) perplexities.push_back(std::exp(-sum / of.trained[i]));
  }
  add_spread("ppl", perplexities, out);
  double tokens = 0;
  for (const std::int64_t length : of.problem.lengths) tokens += static_cast<double>(length);
  const auto valid = static_cast<double>(rows.size());
  out["n_seqs"] = static_cast<double>(perplexities.size());
  out["n_tokens"] = tokens;
  out["n_valid_tokens"] = valid;
  out["prompt_tokens"] = tokens - valid;
  out["global_valid_toks"] = of.valid_tokens();
  out["global_valid_seqs"] = of.valid_sequences();
}

inline void add_predictions(const Case& of, const Rows& rows, Numbers& out) {
  out["sum_pi_squared_avg"] = token_mean(of, [&](std::size_t k) { return rows[k].sum_p2; });
  out["mean_token_accuracy"] = token_mean(of, [&](std::size_t k) { return rows[k].top1; });
  out["mean_logits_avg"] = token_mean(of, [&](std::size_t k) { return rows[k].mean_logit; });
}

}  // namespace lossgrid::plain
