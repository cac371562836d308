// SPDX-License-Identifier: Apache-2.0
// Exchanges of dp ranks once for a global batch, as in a trainer: denominators before the first
// microbatch, loss and metrics after the last. Every rank takes part, also one without sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/comm/counting_communicator.h"
#include "harness/loss/objective.h"
#include "harness/runner/rank/trial_setup.h"

namespace lossgrid {

/// Counts of the global batch, as a trainer makes them before the first microbatch.
struct GlobalCounts {
  Denominators denominators;
  std::vector<std::int64_t> tokens_of_groups;  // by group, where the objective needs them
  double input_sum = 0;                        // of packs, as sum_inputs returns it

  /// Gives them to `batch`, the pack of `part`.
  void give_to(const Problem& part, PackedBatch& batch) const;
};

/// Counts the global batch from the rank's own microbatches: one all-reduce over `dp` of two
/// counts, three with rewards, more where an objective needs sequences or groups of them. A problem
/// that states the global counts keeps them.
GlobalCounts count_global_batch(std::span<const TrialPart> parts, const Problem& whole,
                                Communicator& dp);

/// Returns Objective::input_sum over the global batch: one all-reduce over `dp` of a number where
/// the objective needs it.
double sum_inputs(std::span<const TrialPart> parts, const Objective& objective, Communicator& dp);

/// Joins `result` over dp ranks: one all-reduce of all sums and counts, one of all extrema. The
/// metrics have the same names on all ranks.
void reduce_result(ObjectiveResult& result, Communicator& dp);

/// Returns the cost of the exchanges on a rank with this result.
CollectiveCounts batch_cost(const Problem& whole, const ObjectiveNeeds& needs,
                            const ObjectiveResult& result);

}  // namespace lossgrid
