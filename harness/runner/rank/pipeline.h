// SPDX-License-Identifier: Apache-2.0
// Exchanges of the stages of a pipeline about the microbatches of their dp rank, which all stages
// take in the same order. The first stage announces the shape of the next pack, since packs differ
// in length. The last stage, which alone has logits and a loss, shares loss and metrics of all of
// them. Activations have no part in a loss and are not sent. With one stage nothing is sent.
#pragma once

#include <cstdint>

#include "harness/comm/counting_communicator.h"
#include "harness/loss/objective.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Sizes by which a stage allocates its buffers for a pack.
struct PackShape {
  std::int64_t padded_tokens = 0;  // T_pad
  std::int64_t sequences = 0;
  bool dummy = false;
};

/// Returns the shape of the pack of `part` on `grid`, from its lengths alone.
PackShape shape_of(const Problem& part, const Grid& grid);

/// Broadcasts the first stage's shape over `pp`, before the rank takes microbatch `index`. Throws
/// internal on a stage that has another shape.
void announce_shape(const PackShape& own, std::int64_t index, Communicator& pp);

/// Replaces `result` by that of the last stage, after the last microbatch: one broadcast over `pp`
/// of its size in bytes and one of the bytes.
void share_result(ObjectiveResult& result, Communicator& pp);

/// Returns the cost of both on a rank that takes `microbatches` packs and ends with this result.
CollectiveCounts pipeline_cost(std::int64_t microbatches, const ObjectiveResult& result);

}  // namespace lossgrid
