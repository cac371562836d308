// SPDX-License-Identifier: Apache-2.0
// The fault that changes a number (FaultKind::nan): overwrites one element of the outputs of a
// phase, so that checks have something to find on a known rank.
#pragma once

#include <cstdint>
#include <span>

#include "harness/comm/faults/rank_trace.h"
#include "harness/loss/loss_implementation.h"
#include "harness/runner/rank/rank_tensors.h"

namespace lossgrid {

/// Writes a NaN into the rank's first row that is trained on, else into its first row: into the
/// log-probability behind `forward`, into d logits or d hidden behind any other phase. `own`:
/// places of the rank's rows in `outputs`.
void write_a_nan(RankPhase phase, const RankPack& pack, const Truth& truth,
                 std::span<const std::int64_t> own, LossOutputs& outputs,
                 const LossGradients& gradients);

}  // namespace lossgrid
