// SPDX-License-Identifier: Apache-2.0
// What dp ranks exchange once for a global batch, as a trainer does: the counts that losses divide
// by before the first microbatch, loss and metrics after the last. Every rank takes part, whether
// it has sequences or not.
#pragma once

#include <span>

#include "harness/comm/counting_communicator.h"
#include "harness/loss/objective.h"
#include "harness/runner/trial/trial_setup.h"

namespace lossgrid {

/// Denominators of the global batch from what the rank's own microbatches hold: one all-reduce over
/// `dp` of two counts, three with rewards. A problem that states the global counts keeps them.
Denominators count_denominators(std::span<const TrialPart> parts, const Problem& whole,
                                Communicator& dp);

/// `result` joined over dp ranks: one all-reduce of all sums and counts, one of all extrema. The
/// metrics have the same names on all ranks.
void reduce_result(ObjectiveResult& result, Communicator& dp);

/// What the two cost on a rank with this result.
CollectiveCounts batch_cost(const Problem& whole, const ObjectiveResult& result);

}  // namespace lossgrid
