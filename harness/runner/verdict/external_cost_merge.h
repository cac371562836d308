// SPDX-License-Identifier: Apache-2.0
// Merges memory and communication of external implementations on all ranks and packs, each beside
// its prediction where the user's model has one. Groups and operations are those of the user's
// code.
#pragma once

#include <string>
#include <vector>

#include "harness/runner/rank/rank_trial.h"
#include "reports/record/record.h"

namespace lossgrid {

/// True if the plans of the ranks measured themselves.
bool measured_themselves(const std::vector<RankResult>& ranks);

/// Adds peaks by rank and phase, of the microbatch with the largest. Returns the first that differs
/// from its prediction by more than `tolerance` (0.05: 5 %), in one line; empty when there is none.
std::string merge_external_memory(const std::vector<RankResult>& ranks, double tolerance,
                                  TrialRecord& record);

/// Adds calls and payload by phase, group and operation, added up over microbatches, of the rank
/// `first_shown` or the first rank that differs from its prediction. Returns the first difference;
/// empty when there is none.
std::string merge_external_communication(std::size_t first_shown,
                                         const std::vector<RankResult>& ranks, TrialRecord& record);

}  // namespace lossgrid
