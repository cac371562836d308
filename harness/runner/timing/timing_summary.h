// SPDX-License-Identifier: Apache-2.0
// From what every rank measured to the rows of a record: summaries of samples, rates, the share of
// the ceiling, speed-ups, the straggler, and the verdicts on a row.
#pragma once

#include <string>
#include <vector>

#include "harness/runner/timing/timing_rank.h"
#include "reports/record/timing_record.h"

namespace lossgrid {

/// A row that reaches more than this share of its ceiling measured something else than it says.
inline constexpr double kMostOfCeiling = 1.02;

/// Rows that move fewer last-level caches than this are not judged: what stays in a cache is faster
/// than memory by a factor that differs between phases. Nor is what an emulated GPU does.
inline constexpr std::int64_t kJudgedCaches = 4;

/// "2 ranks share a GPU", or empty. `gpus`: of the ranks (RankTiming::gpu).
std::string why_gpus_are_shared(const std::vector<std::string>& gpus);

/// Fills what comes from samples: rows, ceilings, all-reduces, rounds, and with the verdicts of the
/// rows status and reason of the record. `ranks`: of all ranks, by rank.
void summarise_timing(const TimingPlan& plan, const LossProblem& problem,
                      const std::vector<RankTiming>& ranks, TimingRecord& record);

}  // namespace lossgrid
