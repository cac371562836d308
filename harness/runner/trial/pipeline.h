// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline tell each other about the microbatches of their dp rank, which all
// stages take in the same order: from the first stage the shape of the pack that comes next, since
// packs differ in length; from the last, which alone has logits and a loss, the loss and metrics of
// all of them. Activations have no part in a loss and are not sent. With one stage nothing is.
#pragma once

#include <cstdint>

#include "harness/comm/counting_communicator.h"
#include "harness/loss/objective.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// By what a stage sizes its buffers for a pack.
struct PackShape {
  std::int64_t padded_tokens = 0;  // T_pad
  std::int64_t sequences = 0;
  bool dummy = false;
};

/// Of the pack that `part` makes on `grid`, from its lengths alone.
PackShape shape_of(const Problem& part, const Grid& grid);

/// Before the rank takes microbatch `index`: one broadcast over `pp` of the first stage's shape.
/// Throws internal on a stage that has another one.
void announce_shape(const PackShape& own, std::int64_t index, Communicator& pp);

/// Behind the last microbatch: `result` becomes that of the last stage, by one broadcast over `pp`
/// of its size in bytes and one of those.
void share_result(ObjectiveResult& result, Communicator& pp);

/// What the two cost on a rank that goes through `microbatches` packs and has this result then.
CollectiveCounts pipeline_cost(std::int64_t microbatches, const ObjectiveResult& result);

}  // namespace lossgrid
