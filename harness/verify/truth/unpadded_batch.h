// SPDX-License-Identifier: Apache-2.0
// The batch that the truth is about: unsharded, without padding, and with counts of its own.
#pragma once

#include "harness/problem/batch/packed_batch.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Returns the unsharded, unpadded batch of a problem, with denominators that are counted here:
/// those of the problem and of a trial are of other code.
PackedBatch unpadded_batch(const Problem& problem);

}  // namespace lossgrid
