// SPDX-License-Identifier: Apache-2.0
// Gradients of the lm_head's weight and bias on one rank, float32: packs add to them one after the
// other, as to a trainer's gradient buffer, and the sum over CP and DP ranks is the gradient of the
// vocab shard. So they belong to a rank and not to a pack, and have a truth only after the last
// pack. A rank keeps both in one array, the bias behind the weight.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/loss/train_step.h"
#include "harness/runner/rank/trial_setup.h"
#include "harness/verify/checks/linear_checks.h"
#include "harness/verify/checks/replicas.h"
#include "harness/verify/diagnosis/sequence_parts.h"
#include "harness/verify/diagnosis/slice_parts.h"

namespace lossgrid {

/// Places of the elements of a rank's shard of the weight, and behind them those of the bias.
struct WeightPlaces {
  VocabShard shard;
  std::int64_t size = 0;  // H
  WeightLayout layout = WeightLayout::vocab_hidden;
  bool has_bias = false;

  std::int64_t elements() const { return shard.width * size; }  // of the weight
  std::int64_t bias_elements() const { return has_bias ? shard.width : 0; }
  std::int64_t all_elements() const { return elements() + bias_elements(); }
  /// Returns the numbers of an id: H, and with a bias one more, the last.
  std::int64_t factors() const { return size + (has_bias ? 1 : 0); }
  /// Returns the place of id shard.begin + column, coordinate h < factors().
  std::int64_t at(std::int64_t column, std::int64_t h) const {
    if (h == size) return elements() + column;
    return layout == WeightLayout::vocab_hidden ? column * size + h : h * shard.width + column;
  }
  /// Returns the column of the element at `place`.
  std::int64_t column(std::int64_t place) const {
    if (place >= elements()) return place - elements();
    return layout == WeightLayout::vocab_hidden ? place / size : place % shard.width;
  }
};

WeightPlaces weight_places(const CaseSpec& spec, const Grid& grid, int tp_rank);

/// Gradients of weight and bias on one rank, wherever they stand.
struct WeightGradient {
  std::span<const float> weight;
  std::span<const float> bias = {};

  /// Returns the element at a place of WeightPlaces.
  float at(std::int64_t place) const {
    const auto k = static_cast<std::size_t>(place);
    return k < weight.size() ? weight[k] : bias[k - weight.size()];
  }
};

/// Returns the gradients that a rank keeps in one array.
WeightGradient split_gradient(const WeightPlaces& places, std::span<const float> gradient);

/// Findings about the gradients of weight and bias.
struct WeightFindings {
  LinearFindings weight;
  std::optional<LinearFindings> bias;
  std::optional<ReplicaFindings> replicas;  // unless the ranks hold summands
  std::optional<SequenceParts> sequences;   // beside these, of a gradient that has failed
  std::optional<SliceParts> slices;         // and of one that is left in slices
};

/// Returns the parts that the ranks hold of the gradient of the weight.
WeightGradientParts weight_gradient_parts(const TrialSetup& setup);

/// Places of the array that a rank holds of a gradient that is no summand: 1, others 0.
using HeldPlaces = std::vector<std::uint8_t>;

/// Returns the places of the ranges of a flat [H, ids of the shard], as StepReport::held has
/// them.
HeldPlaces held_places(const WeightPlaces& places, std::span<const ElementRange> ranges);

/// Returns the initial gradient, before the first pack; empty when the problem starts from logits.
std::vector<float> first_weight_gradient(const TrialSetup& setup, int tp_rank);

/// Compares the sum over CP and DP ranks with the truth, in float64, for the ids of this shard that
/// have one; where the ranks hold no summands, `held` not being empty, the mean over the holders of
/// each element, and these with each other. Returns findings on the first CP rank of the first dp
/// rank, nullopt elsewhere. Collective over groups.cp and groups.dp.
std::optional<WeightFindings> check_weight_sum(const TrialSetup& setup, const ProcessGrid& groups,
                                               const WeightGradient& gradient,
                                               const HeldPlaces& held);

/// Returns the gradient of a rank, which it holds the places `held` of, as a summand: over CP and
/// DP ranks these add up to the gradient, and to the initial one of every rank. Collective over
/// groups.cp and groups.dp.
std::vector<float> as_summand(const TrialSetup& setup, const ProcessGrid& groups,
                              const HeldPlaces& held, std::vector<float> gradient);

}  // namespace lossgrid
