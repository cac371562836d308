// SPDX-License-Identifier: Apache-2.0
// Search for the fastest implementation and grid of a case on a machine: every grid of powers of
// two up to a number of ranks, by the models of memory and time. Nothing runs; 4,096 ranks take
// less than a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/planner/model/time_model.h"
#include "harness/planner/plan/plan.h"

namespace lossgrid {

/// A plan with its time.
struct TimedPlan {
  PlanRow row;
  std::optional<TimePrediction> time;  // nullopt: skipped, or there is no model of it

  /// Returns the seconds of forward and backward. Requires a time.
  double seconds() const { return time->both().seconds(); }
  /// Returns the seconds times the ranks that are busy.
  double rank_seconds() const { return seconds() * row.grid.ranks(); }
};

/// Returns the part of the tokens that predict one which are trained on, 1 where there are more
/// than 2^26 of them.
double valid_share(const CaseSpec& spec);

/// Plans a trial with its time. Throws as plan_trial.
TimedPlan plan_time(const CaseSpec& spec, const Grid& grid, const std::string& implementation,
                    const TimeModel& model);

struct SearchRequest {
  CaseSpec spec;
  std::vector<std::string> implementations;
  int most_ranks = 1;
  std::int64_t memory_bytes = 0;  // that the loss may have of a rank
};

/// Returns the grids of a search: tp x cp in powers of two with at most so many ranks, tp at most
/// the vocabulary, and with hidden states also with sequence parallelism.
std::vector<Grid> searched_grids(const CaseSpec& spec, int most_ranks);

/// Returns a plan for every implementation and grid that has a time: those that fit come first,
/// each part from the fastest to the slowest, of equals the one with fewer ranks.
std::vector<TimedPlan> search_grids(const SearchRequest& request, const TimeModel& model);

}  // namespace lossgrid
