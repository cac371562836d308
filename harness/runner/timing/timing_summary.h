// SPDX-License-Identifier: Apache-2.0
// Summarises the measurements of all ranks into the rows of a record: samples, rates, the share of
// the ceiling, speed-ups, the straggler, and the verdicts on a row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/core/skip_reason.h"
#include "harness/runner/timing/timing_rank.h"
#include "reports/record/timing_record.h"

namespace lossgrid {

/// Above 102 % of its ceiling a row is `above_ceiling`: the measurement or the cost model is wrong.
inline constexpr double kMostOfCeiling = 1.02;

/// Rows that move fewer last-level caches than this are not judged: data that stays in a cache is
/// faster than memory by a factor that differs between phases. Rows of an emulated GPU are not
/// judged either.
inline constexpr std::int64_t kJudgedCaches = 4;

/// Returns "2 ranks share a GPU", a reason for which times are not representative. `gpus`: by rank
/// (RankTiming::gpu).
std::optional<SkipReason> gpu_sharing(const std::vector<std::string>& gpus);

/// Fills rows, ceilings, all-reduces and rounds from the samples, and with the verdicts of the rows
/// status and reason of the record. `ranks`: measurements by rank.
void summarise_timing(const TimingPlan& plan, const LossProblem& problem,
                      const std::vector<RankTiming>& ranks, TimingRecord& record);

}  // namespace lossgrid
