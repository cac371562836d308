// SPDX-License-Identifier: Apache-2.0
// What is known about the wrong numbers of a trial, from what all its ranks found.
#pragma once

#include <vector>

#include "harness/runner/trial/rank_trial.h"
#include "harness/verify/diagnosis.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Whether what a rank made of its rows is counted: without sequence parallelism all TP ranks hold
/// the same rows of d hidden, and errors of copies are not independent.
bool is_counted(const Grid& grid, std::size_t rank, const std::string& gradient);

/// `record` has the checks of the trial.
FailureFacts failure_facts(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                           const TrialRecord& record);

}  // namespace lossgrid
