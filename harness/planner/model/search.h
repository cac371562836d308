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
  std::optional<TimePrediction> time;  // nullopt: skipped, or without a model of its time

  /// Returns the seconds of forward and backward. Requires a time.
  double seconds() const { return time->both().seconds(); }
  /// Returns the seconds times the number of busy ranks.
  double rank_seconds() const { return seconds() * row.grid.ranks(); }
};

/// Returns the share of trained tokens among predicting tokens; 1 if there are more than 2^26
/// predicting tokens.
double valid_share(const CaseSpec& spec);

/// Plans a trial with its time. Throws the errors of plan_trial.
TimedPlan plan_time(const CaseSpec& spec, const Grid& grid, const std::string& implementation,
                    const TimeModel& model);

struct SearchRequest {
  CaseSpec spec;
  std::vector<std::string> implementations;
  int most_ranks = 1;
  std::int64_t memory_bytes = 0;  // memory of a rank that the loss may use
};

/// Returns the grids of a search: tp x cp in powers of two with at most `most_ranks` ranks and tp
/// at most the vocabulary; for hidden states, also with sequence parallelism.
std::vector<Grid> searched_grids(const CaseSpec& spec, int most_ranks);

/// Returns a plan for every implementation and grid that has a time. Plans that fit precede plans
/// that do not. Both parts are ordered from the fastest to the slowest, equal times by the number
/// of ranks.
std::vector<TimedPlan> search_grids(const SearchRequest& request, const TimeModel& model);

}  // namespace lossgrid
