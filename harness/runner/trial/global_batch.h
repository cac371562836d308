// SPDX-License-Identifier: Apache-2.0
// Exchanges of dp ranks once for a global batch, as in a trainer: denominators before the first
// microbatch, loss and metrics after the last. Every rank takes part, also one without sequences.
#pragma once

#include <span>

#include "harness/comm/counting_communicator.h"
#include "harness/loss/objective.h"
#include "harness/runner/trial/trial_setup.h"

namespace lossgrid {

/// Returns the denominators of the global batch from the rank's own microbatches: one all-reduce
/// over `dp` of two counts, three with rewards. A problem that states the global counts keeps them.
Denominators count_denominators(std::span<const TrialPart> parts, const Problem& whole,
                                Communicator& dp);

/// Joins `result` over dp ranks: one all-reduce of all sums and counts, one of all extrema. The
/// metrics have the same names on all ranks.
void reduce_result(ObjectiveResult& result, Communicator& dp);

/// Returns the cost of the two exchanges on a rank with this result.
CollectiveCounts batch_cost(const Problem& whole, const ObjectiveResult& result);

}  // namespace lossgrid
