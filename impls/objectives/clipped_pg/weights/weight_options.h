// SPDX-License-Identifier: Apache-2.0
// WeightOptions: the options of `clipped_pg` about importance weights, of the previous policy over
// the generating one. nvcc compiles this header.
#pragma once

#include <optional>

#include "impls/objectives/objective_options.h"

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
struct PolicyEdges;

/// Treatment of importance weights w outside of [ratio_min, ratio].
enum class Truncation {
  none,
  tis,           // clamped
  icepop,        // 0
  seq_mask_tis,  // 0 for all tokens of a sequence whose mean is outside
};

/// Importance weight of a token, by the log weights of its sequence.
enum class WeightLevel {
  token,      // its own
  sequence,   // of their sum
  geometric,  // of their mean
};

/// Treatment of a generation log-probability that is not finite.
enum class NonfiniteGeneration {
  refuse,
  zero_weight,  // the token, or the sequence that has one weight, has the importance weight 0
  drop,         // the token is masked
};

struct WeightOptions {
  bool use_importance_sampling_correction = false;
  Truncation truncated_importance_sampling_type = Truncation::none;
  std::optional<double> truncated_importance_sampling_ratio;
  std::optional<double> truncated_importance_sampling_ratio_min;
  std::optional<WeightLevel> rollout_is;    // null: of sequences under sequence-level ratios
  bool rollout_is_batch_normalize = false;  // divides weights by their mean
  NonfiniteGeneration nonfinite_generation_logprobs = NonfiniteGeneration::refuse;

  void read(const OptionReader& reader);

  constexpr bool truncates() const {
    return truncated_importance_sampling_type != Truncation::none;
  }
  constexpr bool masks_sequences() const {
    return truncated_importance_sampling_type == Truncation::seq_mask_tis;
  }
  /// True if tokens without a generation log-probability have the weight 0.
  constexpr bool zero_weights_nonfinite() const {
    return nonfinite_generation_logprobs == NonfiniteGeneration::zero_weight;
  }
};

inline void WeightOptions::read(const OptionReader& reader) {
  reader.read("use_importance_sampling_correction", use_importance_sampling_correction,
              {"loss weighted by previous over generation probability", "AReaL decoupled loss"});
  const std::optional<std::size_t> truncation =
      reader.optional_index("truncated_importance_sampling_type", {"tis", "icepop", "seq-mask-tis"},
                            {"truncation of the importance weights: `tis` clamps them, `icepop` "
                             "drops tokens, `seq-mask-tis` drops sequences"});
  truncated_importance_sampling_type =
      truncation ? static_cast<Truncation>(*truncation + 1) : Truncation::none;
  reader.read(
      "truncated_importance_sampling_ratio", truncated_importance_sampling_ratio,
      {"upper bound of the importance weights", "verl `tis_imp_ratio_cap`", {}, {"1.2", "1.05"}});
  reader.read("truncated_importance_sampling_ratio_min", truncated_importance_sampling_ratio_min,
              {"lower bound of the importance weights", "", {}, {"0.8", "0.95", "1.05"}});
  reader.read("rollout_is", rollout_is, {"token", "sequence", "geometric"},
              {"importance weights of a `token`, of a `sequence` (the product of its tokens' "
               "weights) or `geometric` (the n-th root of the product); null: of sequences under "
               "sequence-level ratios, else of tokens",
               "verl `rollout_is`; AReaL, mean of a sequence"});
  reader.read(
      "rollout_is_batch_normalize", rollout_is_batch_normalize,
      {"divides the truncated importance weights by their mean over the valid tokens of the global "
       "batch, or over its sequences with a valid token; a mean of 1e-8 or less divides nothing",
       "verl; in its bypass mode by microbatch"});
  reader.read(
      "nonfinite_generation_logprobs", nonfinite_generation_logprobs,
      {"refuse", "zero_weight", "drop"},
      {"generation log-probabilities of -inf, inf or NaN: see [log-probabilities that are not "
       "finite](#generation-log-probabilities-that-are-not-finite)",
       "NeMo-RL; verl, SkyRL: -inf has the weight e^20; `drop`: torchtitan"});
}

/// Throws bad_input for a combination that is not allowed.
void require_weights_fit(const ClippedPgOptions& options);

/// Adds the needs of importance weights: their sum, and counts of sequences.
void add_weight_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

/// Adds the log weights at which importance weights meet their bounds.
void add_weight_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
