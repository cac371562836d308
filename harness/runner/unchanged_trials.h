// SPDX-License-Identifier: Apache-2.0
// `UnchangedTrials`: trials of the implementations that mutants are made of. Each runs once, when
// a mutant fails it: a trial that the unchanged implementation fails, too, proves nothing.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/runner/run.h"

namespace lossgrid {

/// Returns the text of the case of a trial.
std::string case_text_of(const TrialRecord& trial);

class UnchangedTrials {
 public:
  /// `suites` in the order of grids in which mutants run; all outlive the object.
  UnchangedTrials(const std::vector<Suite>& suites, const RunOptions& options,
                  ProblemCache& problems);

  /// Returns the trial `of_mutant` with `unchanged` in the place of the mutant. `over_grids`: it
  /// runs behind the grids before it in the suite, with whose bits its own are compared.
  const TrialRecord& find(const TrialRecord& of_mutant, const std::string& unchanged,
                          bool over_grids);

  /// Keeps a trial that ran elsewhere.
  void note(const TrialRecord& trial);

  /// True if a trial hung: no further one may run, as in run_suites.
  bool must_end() const { return must_end_; }

 private:
  Suite suite_of(const TrialRecord& trial, bool over_grids) const;

  RunOptions options_;
  ProblemCache& problems_;
  std::map<std::string, std::vector<std::pair<const Suite*, const CaseSpec*>>> cases_;  // by text
  std::map<std::string, TrialRecord> trials_;  // by id; of those that passed the status alone
  bool must_end_ = false;
};

}  // namespace lossgrid
