// SPDX-License-Identifier: Apache-2.0
// The fault that changes a number (FaultKind::nan): one element of what a phase gave is
// overwritten, so that checks have something to find on a rank that is known.
#pragma once

#include <cstdint>
#include <span>

#include "harness/comm/faults/rank_trace.h"
#include "harness/loss/loss_implementation.h"
#include "harness/runner/trial/rank_tensors.h"

namespace lossgrid {

/// Makes an element a NaN, in the first row of the rank that is trained on, else in its first row:
/// the log-probability behind `forward`, d logits or d hidden behind any other phase. `own` are the
/// places of the rank's rows in `outputs`.
void write_a_nan(RankPhase phase, const RankPack& pack, const Truth& truth,
                 std::span<const std::int64_t> own, LossOutputs& outputs,
                 const LossGradients& gradients);

}  // namespace lossgrid
