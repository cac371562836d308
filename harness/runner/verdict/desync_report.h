// SPDX-License-Identifier: Apache-2.0
// Where every rank was when a trial was cut short: what it was doing, in which phase, and its last
// collectives, as the report has it. Laid side by side they show who did not come, and who called
// something else.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/faults/rank_outcome.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Of a run that failed, by rank.
std::vector<RankRecord> desync_report(const RanksOutcome& outcome);

/// Of ranks whose processes are gone, from what they left behind (read_flight_records).
std::vector<RankRecord> desync_report(const std::vector<RankTrace>& left_behind);

/// The rank whose process died, from the second of these: the only one that was in no collective
/// and had not come to its end. -1 when that holds for several, or for none.
std::int64_t rank_that_died(const std::vector<RankRecord>& ranks);

}  // namespace lossgrid
