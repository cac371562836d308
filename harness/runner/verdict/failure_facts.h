// SPDX-License-Identifier: Apache-2.0
// Facts about the wrong numbers of a trial, for explain(): collected from the findings of all
// ranks.
#pragma once

#include <vector>

#include "harness/runner/rank/rank_trial.h"
#include "harness/verify/diagnosis/diagnosis.h"
#include "reports/record/record.h"

namespace lossgrid {

/// True if the rows of a rank count in sums over ranks: without sequence parallelism all TP ranks
/// hold the same rows of d hidden, and errors of copies are not independent.
bool is_counted(const Grid& grid, std::size_t rank, const std::string& gradient);

/// Returns the conventions that an implementation declares.
DeclaredWords declared_words(const LossImplementation& implementation);

/// Adds what is counted of lengths and masks.
void add_counts(const Problem& problem, TrialSizes& sizes);

/// Returns the places without a trained token, of one TP rank.
std::vector<PartPlace> untrained_places(const TrialSetup& setup);

/// Collects the facts. `record` has the checks of the trial.
FailureFacts failure_facts(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                           const TrialRecord& record);

}  // namespace lossgrid
