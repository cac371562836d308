// SPDX-License-Identifier: Apache-2.0
// Gradient of the lm_head's weight on one rank, float32: packs add to it one after the other, as to
// a trainer's gradient buffer, and the sum over CP and DP ranks is the gradient of the vocab shard.
// So it belongs to a rank and not to a pack, and has a truth only after the last pack.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/runner/trial/trial_setup.h"
#include "harness/verify/linear_checks.h"

namespace lossgrid {

/// Places of the elements of a rank's shard of the weight.
struct WeightPlaces {
  VocabShard shard;
  std::int64_t size = 0;  // H
  WeightLayout layout = WeightLayout::vocab_hidden;

  std::int64_t elements() const { return shard.width * size; }
  /// Returns the place of id shard.begin + column, coordinate h.
  std::int64_t at(std::int64_t column, std::int64_t h) const {
    return layout == WeightLayout::vocab_hidden ? column * size + h : h * shard.width + column;
  }
  /// Returns the column of the element at `place`.
  std::int64_t column(std::int64_t place) const {
    return layout == WeightLayout::vocab_hidden ? place / size : place % shard.width;
  }
};

WeightPlaces weight_places(const CaseSpec& spec, const Grid& grid, int tp_rank);

/// Returns the initial gradient, before the first pack; empty when the problem starts from logits.
std::vector<float> first_weight_gradient(const TrialSetup& setup, int tp_rank);

/// Compares the sum over CP and DP ranks with the truth, in float64, for the ids of this shard that
/// have one. Returns findings on the first CP rank of the first dp rank, nullopt elsewhere.
/// Collective over groups.cp and groups.dp.
std::optional<LinearFindings> check_weight_sum(const TrialSetup& setup, const ProcessGrid& groups,
                                               std::span<const float> gradient);

}  // namespace lossgrid
