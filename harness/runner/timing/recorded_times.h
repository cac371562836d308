// SPDX-License-Identifier: Apache-2.0
// Predicted times beside measured ones in the records of trials and timings. Nothing is timed here:
// a record is complete before.
#pragma once

#include "harness/comm/process_grid.h"
#include "harness/device/backend.h"
#include "harness/planner/model/machine.h"
#include "harness/runner/job/problem_cache.h"
#include "reports/record/timing_record.h"
#include "reports/record/trial_record.h"

namespace lossgrid {

/// Sets the predicted time of every row whose implementation has a model of it.
void add_predicted_times(const PreparedProblem& prepared, const Grid& grid, Backend backend,
                         const Machine& machine, TimingRecord& record);

/// Sets the predicted time of the phases of a trial that has one pack.
void add_predicted_times(const PreparedProblem& prepared, const Grid& grid, Backend backend,
                         const Machine& machine, TrialRecord& record);

}  // namespace lossgrid
