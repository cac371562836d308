// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: the aggregation of terms of tokens to a loss.
#pragma once

#include "impls/objectives/clipped_pg/clipped_pg_truth_part.h"

namespace lossgrid {

class TrueAggregation : public TruthPart {
 public:
  explicit TrueAggregation(TruthState& state) : TruthPart(state) {}

  /// Returns total / count, 0 for none.
  static Var over(const Var& total, std::int64_t count) {
    return count == 0 ? Var() : total * Var(reciprocal(count));
  }

  static Var mean(const std::vector<Var>& terms) {
    return over(sum(terms), static_cast<std::int64_t>(terms.size()));
  }

  /// True if the loss is a mean or a sum over tokens, whatever sequence they belong to.
  bool is_over_tokens() const {
    if (!options_.loss_agg_mode) return options_.token_level_loss;
    return options_.loss_agg_mode == AggregationMode::token_mean ||
           options_.loss_agg_mode == AggregationMode::token_sum;
  }

  /// Returns the number of elements that the loss is about; 0: it has none.
  std::int64_t elements() const {
    const bool is_over_samples = !options_.loss_agg_mode && !options_.token_level_loss;
    return is_over_samples ? counts().valid_sequences : counts().valid_tokens;
  }

  /// Returns the terms of tokens aggregated as the loss is.
  Var in_loss(const ByToken<Var>& terms) const {
    if (options_.loss_agg_mode == AggregationMode::token_sum) return sum(flat(terms));
    if (is_over_tokens()) return over(sum(flat(terms)), counts().valid_tokens);
    std::vector<Var> by_sequence;
    for (std::size_t i = 0; i < terms.size(); ++i) by_sequence.push_back(of_sequence(i, terms[i]));
    return over(sum(by_sequence), sequences());
  }

  /// Counts the sequences without a valid token.
  void count_sequences() {
    if (!options_.loss_agg_mode || is_over_tokens()) return;
    std::int64_t& count = truth_.branches["sequence_without_targets"];
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      count += batch_.sample_mask[i] != 0 && tokens_[i].empty() ? 1 : 0;
    }
  }

 private:
  /// Returns the number of sequences, or of groups, that a mean over them is divided by.
  std::int64_t sequences() const {
    if (!options_.loss_agg_mode) return counts().valid_sequences;
    if (options_.loss_agg_mode == AggregationMode::prompt_mean ||
        options_.loss_agg_mode == AggregationMode::token_mean_legacy) {
      return options_.count_masked_sequences ? counts().all_groups : counts().trained_groups;
    }
    return options_.count_masked_sequences ? counts().all_sequences : counts().trained_sequences;
  }

  /// Returns what sequence i adds to the sum over sequences or groups.
  Var of_sequence(std::size_t i, const std::vector<Var>& terms) const {
    if (!options_.loss_agg_mode) return mean(terms);
    switch (*options_.loss_agg_mode) {
      case AggregationMode::sequence_mean_token_sum:
        return sum(terms);
      case AggregationMode::prompt_mean:
      case AggregationMode::token_mean_legacy:  // a part of the mean of its group
        return over(sum(terms), batch_.group_tokens[i]);
      case AggregationMode::sequence_mean_token_sum_norm:
        return sum(terms) / Var(constant(*options_.loss_scale_factor));
      default:
        return mean(terms);
    }
  }
};

}  // namespace lossgrid
