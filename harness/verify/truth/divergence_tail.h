// SPDX-License-Identifier: Apache-2.0
// The tail of a row's divergence from its teacher: one more id, which stands for all that were not
// sent (divergence_truth.h).
#pragma once

#include <cmath>

#include "harness/verify/truth/divergence_truth.h"

namespace lossgrid {

inline const double kLogSmallestTail = std::log(Divergence::kSmallestTail);

/// Returns the tail of a row, the logits of whose teacher are ln q; `truth` has p.
TailTruth tail_of(const DivergenceTruth& truth, const DistilledLogits& logits);

}  // namespace lossgrid
