// SPDX-License-Identifier: Apache-2.0
// AggregationOptions: the options of `clipped_pg` by which terms of tokens add up to a loss. nvcc
// compiles this header.
#pragma once

#include <optional>

#include "impls/objectives/clipped_pg/aggregation/aggregation.h"

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
class OptionReader;

struct AggregationOptions {
  bool token_level_loss = true;                  // false: mean over sequences of their token means
  std::optional<AggregationMode> loss_agg_mode;  // in the place of token_level_loss
  std::optional<double> loss_scale_factor;       // of seq-mean-token-sum-norm
  std::optional<double> prompt_group_size;       // neighbours that answer one prompt; prompt-mean
  bool count_masked_sequences = false;           // in means over sequences by loss_agg_mode

  void read(const OptionReader& reader);

  /// Shares of tokens in the policy, KL and entropy terms.
  constexpr Aggregation aggregation() const {
    if (!loss_agg_mode) {
      return {.mode = token_level_loss ? AggregationMode::token_mean
                                       : AggregationMode::sequence_mean_token_mean};
    }
    return {.mode = *loss_agg_mode,
            .counted = count_masked_sequences ? CountedSequences::all : CountedSequences::trained,
            .scale_factor = loss_scale_factor.value_or(1)};
  }
};

/// Throws bad_input for a combination that is not allowed.
void require_aggregation_fits(const ClippedPgOptions& options);

/// Adds the needs of the aggregation: counts of sequences and groups.
void add_aggregation_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

}  // namespace lossgrid
