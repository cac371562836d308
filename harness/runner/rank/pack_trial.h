// SPDX-License-Identifier: Apache-2.0
// Runs one pack of a trial on one rank: makes its shard, plans, runs forward and backward, checks
// all outputs, then runs again and compares the bits. Only the implementation's own collectives are
// counted. A rank that cannot go on throws; the transport then fails the others. Packs of a rank
// share its device: buffers that one leaves there are found in the memory of the next.
#pragma once

#include "harness/runner/rank/global_batch.h"
#include "harness/runner/rank/pack_findings.h"
#include "harness/runner/rank/pack_rank.h"
#include "harness/runner/rank/trial_setup.h"

namespace lossgrid {

/// Returns the findings of a pack. All buffers are on `device`, and freed at the end.
PackFindings run_pack(const TrialSetup& setup, const TrialPart& part, const GlobalCounts& counts,
                      const PackRank& rank, Device& device);

}  // namespace lossgrid
