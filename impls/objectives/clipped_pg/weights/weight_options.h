// SPDX-License-Identifier: Apache-2.0
// WeightOptions: the options of `clipped_pg` about importance weights, of the previous policy over
// the generating one. nvcc compiles this header.
#pragma once

#include <optional>

namespace lossgrid {

struct ClippedPgOptions;
struct ObjectiveNeeds;
class OptionReader;
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

/// Throws bad_input for a combination that is not allowed.
void require_weights_fit(const ClippedPgOptions& options);

/// Adds the needs of importance weights: their sum, and counts of sequences.
void add_weight_needs(const ClippedPgOptions& options, ObjectiveNeeds& needs);

/// Adds the log weights at which importance weights meet their bounds.
void add_weight_edges(const ClippedPgOptions& options, PolicyEdges& edges);

}  // namespace lossgrid
