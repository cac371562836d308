// SPDX-License-Identifier: Apache-2.0
// Aggregation: the weights with which terms of tokens add up to a loss, under verl's names of
// `loss_agg_mode`. With n_i the valid tokens of sequence i, N those of the global batch and S its
// sequences, a token of sequence i has the share
//
//   token-mean               1 / N
//   token-sum                1
//   seq-mean-token-mean      1 / (S n_i)
//   seq-mean-token-sum       1 / S
//   seq-mean-token-sum-norm  1 / (S C), C the loss_scale_factor (Dr. GRPO)
//   prompt-mean              1 / (P m_i), m_i the valid tokens of its group, P the groups (SkyRL)
//   token-mean-legacy        the same with packs as the groups: the mean of the packs' means
//
// S counts sequences with a valid token, as verl and OpenRLHF do, or all of them, as SkyRL and TRL
// do; P groups alike. nvcc compiles this header.
#pragma once

#include <cstdint>

#include "harness/problem/batch/token_inputs.h"

namespace lossgrid {

enum class AggregationMode {
  token_mean,
  token_sum,
  sequence_mean_token_mean,
  sequence_mean_token_sum,
  sequence_mean_token_sum_norm,
  prompt_mean,
  token_mean_legacy,
};

/// Sequences of the global batch that a mean over sequences counts.
enum class CountedSequences {
  by_sample_mask,  // as NeMo-RL
  trained,         // with a valid token
  all,             // masked ones too
};

struct Aggregation {
  AggregationMode mode = AggregationMode::token_mean;
  CountedSequences counted = CountedSequences::by_sample_mask;
  double scale_factor = 1;  // C

  constexpr bool over_tokens() const {
    return mode == AggregationMode::token_mean || mode == AggregationMode::token_sum;
  }
  /// True if tokens of different sequences have different shares.
  constexpr bool differs_by_sequence() const {
    return mode == AggregationMode::sequence_mean_token_mean || over_groups();
  }
  constexpr bool over_groups() const {
    return mode == AggregationMode::prompt_mean || over_packs();
  }
  constexpr bool over_packs() const { return mode == AggregationMode::token_mean_legacy; }
  /// Returns S.
  constexpr std::int64_t sequences(const Denominators& counts) const {
    return counted == CountedSequences::trained ? counts.trained_sequences
           : counted == CountedSequences::all   ? counts.all_sequences
                                                : counts.valid_sequences;
  }
  /// Returns P.
  constexpr std::int64_t groups(const Denominators& counts) const {
    return counted == CountedSequences::all ? counts.all_groups : counts.trained_groups;
  }
  /// Returns the number of elements that the loss is about; 0: it has none.
  constexpr std::int64_t elements(const Denominators& counts) const {
    const bool takes_tokens = over_tokens() || counted != CountedSequences::by_sample_mask;
    return takes_tokens ? counts.valid_tokens : counts.valid_sequences;
  }
};

/// Returns 1 / count, 0 for none.
template <typename Real>
Real inverse_or_0(std::int64_t count) {
  return count > 0 ? 1 / static_cast<Real>(count) : Real(0);
}

/// Returns the share of a token of a sequence with `tokens` valid ones; over groups, of a group
/// with that many.
template <typename Real>
Real share_of_token(const Aggregation& aggregation, const Denominators& counts,
                    std::int64_t tokens) {
  const Real per_sequence = inverse_or_0<Real>(aggregation.sequences(counts));
  switch (aggregation.mode) {
    case AggregationMode::token_mean:
      return inverse_or_0<Real>(counts.valid_tokens);
    case AggregationMode::token_sum:
      return Real(1);
    case AggregationMode::sequence_mean_token_mean:
      return inverse_or_0<Real>(tokens) * per_sequence;
    case AggregationMode::prompt_mean:
    case AggregationMode::token_mean_legacy:
      return inverse_or_0<Real>(tokens) * inverse_or_0<Real>(aggregation.groups(counts));
    case AggregationMode::sequence_mean_token_sum_norm:
      return per_sequence / static_cast<Real>(aggregation.scale_factor);
    default:
      return per_sequence;
  }
}

}  // namespace lossgrid
