// SPDX-License-Identifier: Apache-2.0
// Memory, communication and times of all ranks and packs, each beside its prediction.
#pragma once

#include <string>
#include <vector>

#include "harness/runner/trial/rank_trial.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Peaks by rank and phase, of the microbatch with the largest; of a rank without packs, which
/// needs nothing, that of the whole trial. Returns what differs from its prediction by more than
/// 5 %, in one line, or nothing.
std::string merge_memory(const std::vector<RankResult>& ranks, TrialRecord& record);

/// Calls and payload by phase, group and operation, added up over microbatches; of the first rank
/// of the last stage or the first rank that differs from its prediction. Returns the first
/// difference or nothing.
std::string merge_communication(const Grid& grid, const std::vector<RankResult>& ranks,
                                TrialRecord& record);

/// Of the slowest rank by phase, added up over its microbatches; and the work of the rank with the
/// most, by prediction: operations of matrix products, and chunks.
void merge_times(const std::vector<RankResult>& ranks, TrialRecord& record);

}  // namespace lossgrid
