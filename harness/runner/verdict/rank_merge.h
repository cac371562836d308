// SPDX-License-Identifier: Apache-2.0
// From what every rank found to the verdict on the trial: checks merged to the worst element,
// invariants over several ranks, costs against their predictions.
#pragma once

#include <string>
#include <vector>

#include "harness/runner/trial/rank_trial.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Adds checks made after the ranks were merged; one that fails turns the trial into a failed one.
void add_checks(const std::vector<Check>& checks, TrialRecord& record);

/// What ranks found in the outputs of a pack, whoever ran it: checks merged to the worst element,
/// and invariants of one and of several ranks, without costs and determinism. Returns what does
/// not hold, one reason each.
std::vector<std::string> merge_outputs(const TrialSetup& setup,
                                       const std::vector<RankResult>& ranks, TrialRecord& record);

/// Fills checks, invariants, determinism, memory, communication, times, fingerprints, status,
/// reason and explanation of `record`.
void merge_ranks(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                 TrialRecord& record);

}  // namespace lossgrid
