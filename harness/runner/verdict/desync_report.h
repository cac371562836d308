// SPDX-License-Identifier: Apache-2.0
// State of every rank when a trial was cut short, as the report has it: its activity, its phase and
// its last collectives. Side by side they show which rank did not come to a collective, and which
// called another one.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/faults/rank_outcome.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Returns the states in a run that failed, by rank.
std::vector<RankRecord> desync_report(const RanksOutcome& outcome);

/// Returns the states of ranks whose processes are gone, from their flight recorders
/// (read_flight_records).
std::vector<RankRecord> desync_report(const std::vector<RankTrace>& left_behind);

/// Returns the rank whose process died, from the second of these: the only one that was in no
/// collective and had not come to its end; -1 when there are several, or none.
std::int64_t rank_that_died(const std::vector<RankRecord>& ranks);

}  // namespace lossgrid
