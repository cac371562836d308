// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/unchanged_trials.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/device/backend.h"
#include "harness/runner/trial/trial.h"

namespace lossgrid {

std::string case_text_of(const TrialRecord& trial) {
  return trial.id.substr(0, trial.id.find('|'));
}

UnchangedTrials::UnchangedTrials(const std::vector<Suite>& suites, const RunOptions& options,
                                 ProblemCache& problems)
    : options_(options), problems_(problems) {
  options_.fault.reset();  // it strikes mutants
  options_.finished = {};
  for (const Suite& suite : suites) {
    for (const CaseSpec& spec : suite.cases) cases_[format_case(spec)].emplace_back(&suite, &spec);
  }
}

/// Returns the suite of a trial with its case alone, and its grid or the grids up to it.
Suite UnchangedTrials::suite_of(const TrialRecord& trial, bool over_grids) const {
  for (const auto& [suite, spec] : cases_.at(case_text_of(trial))) {
    const auto grid = std::find_if(suite->grids.begin(), suite->grids.end(), [&](const Grid& one) {
      return format_grid(one) == trial.grid();
    });
    if (grid == suite->grids.end()) continue;
    Suite alone = *suite;
    alone.cases = {*spec};
    alone.grids.assign(over_grids ? suite->grids.begin() : grid, grid + 1);
    alone.backend = parse_backend(trial.backend, "backend of a trial: ");
    return alone;
  }
  throw Error(ErrorCode::internal, "no suite has the trial " + trial.id);
}

const TrialRecord& UnchangedTrials::find(const TrialRecord& of_mutant, const std::string& unchanged,
                                         bool over_grids) {
  Suite suite = suite_of(of_mutant, over_grids);
  const std::string id =
      trial_id(case_text_of(of_mutant), suite.grids.back(), unchanged, suite.backend);
  const auto known = trials_.find(id);
  if (known != trials_.end() && !over_grids) return known->second;
  suite.implementations = {unchanged};
  must_end_ = run_suites({suite}, options_, problems_, [&](const TrialRecord& trial) {
    note(trial);
    return true;
  });
  return trials_.at(id);
}

void UnchangedTrials::note(const TrialRecord& trial) {
  TrialRecord kept;
  if (trial.status != TrialStatus::passed) kept = trial;
  kept.status = trial.status;
  trials_[trial.id] = std::move(kept);
}

}  // namespace lossgrid
