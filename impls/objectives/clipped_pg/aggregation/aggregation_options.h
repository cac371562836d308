// SPDX-License-Identifier: Apache-2.0
// AggregationOptions: the options of `clipped_pg` by which terms of tokens add up to a loss. nvcc
// compiles this header.
#pragma once

#include <cmath>
#include <optional>

#include "impls/objectives/clipped_pg/aggregation/aggregation.h"
#include "impls/objectives/objective_options.h"

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;

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

inline constexpr double kLargestPromptGroup = 2147483647;
inline constexpr NumberRule kPromptGroup{
    "must be a whole number in [1, 2^31)",
    [](double x) { return x >= 1 && x <= kLargestPromptGroup && x == std::floor(x); }};

inline void AggregationOptions::read(const OptionReader& reader) {
  reader.read(
      "token_level_loss", token_level_loss,
      {"mean over tokens; false: mean over sequences of their means over tokens", "DAPO, GRPO"});
  reader.read("loss_agg_mode", loss_agg_mode,
              {"token-mean", "token-sum", "seq-mean-token-mean", "seq-mean-token-sum",
               "seq-mean-token-sum-norm", "prompt-mean", "token-mean-legacy"},
              {"in the place of `token_level_loss`, for policy, KL and entropy terms alike; see "
               "[aggregation](#aggregation)",
               "verl `loss_agg_mode`, SkyRL `loss_reduction`"});
  reader.read("loss_scale_factor", loss_scale_factor,
              {"C of `seq-mean-token-sum-norm`",
               "verl `loss_scale_factor`; Dr. GRPO, TRL `dr_grpo`",
               kAbove0,
               {"64.0"}});
  reader.read(
      "prompt_group_size", prompt_group_size,
      {"neighbouring sequences that answer one prompt, for `prompt-mean`; the last group may "
       "have fewer",
       "SkyRL `n_samples_per_prompt`",
       kPromptGroup,
       {"2.0", "3.0"}});
  reader.read("count_masked_sequences", count_masked_sequences,
              {"means over sequences or groups by `loss_agg_mode` count masked ones too",
               "false: verl, OpenRLHF; true: SkyRL, TRL"});
}

/// Throws bad_input for a combination that is not allowed.
void require_aggregation_fits(const ClippedPgOptions& options);

/// Adds the needs of the aggregation: counts of sequences and groups.
void add_aggregation_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

}  // namespace lossgrid
