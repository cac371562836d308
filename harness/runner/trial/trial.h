// SPDX-License-Identifier: Apache-2.0
// Runs one trial on its ranks and turns their findings into a record: the one place where an
// exception becomes a status.
#pragma once

#include <chrono>
#include <optional>

#include "harness/problem/bundle/bundle.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/job/ranks.h"
#include "harness/runner/rank/trial_setup.h"
#include "harness/verify/checks/check.h"
#include "harness/verify/diagnosis/diagnosis.h"
#include "reports/record/record.h"

namespace lossgrid {

struct TrialOutcome {
  TrialRecord record;
  bool must_end = false;  // a rank hangs or has lost its GPU: the process must report and end with
                          // std::_Exit
  std::optional<BundleResults> outputs;  // in the unsharded layout, with setup.keep_outputs
  // About the wrong numbers of a trial that failed by them, where this process reports.
  std::optional<FailureFacts> failure;
};

/// Throws the errors of make_trial, and makes no truth.
void require_trial(const PreparedProblem& prepared, const std::string& implementation,
                   const Grid& grid);

/// Makes the trial of an implementation on a grid: its truth, and its parts for dp ranks and
/// microbatches. Throws bad_input for an unknown implementation, a grid that the problem does not
/// fit, or a file of results that is not of the problem.
TrialSetup make_trial(const PreparedProblem& prepared, const std::string& implementation,
                      const Grid& grid, Backend backend = Backend::cpu);

/// Runs a trial and judges it. One that does not fit, or that the implementation cannot take, is
/// skipped with the reason. Where this process does not report, one that ran stays not_run.
TrialOutcome run_trial(const TrialSetup& made, std::chrono::milliseconds deadline,
                       const Ranks& ranks = Ranks());

/// Compares the outputs of a trial with those that its bundle expects: the bounds of the truth
/// around the bundle's values.
std::vector<Check> check_outputs(const TrialSetup& setup, const BundleResults& expected,
                                 const BundleResults& outputs);

/// Returns the identity of a trial in reports; `problem`: the text of its case, or the bundle and
/// how it is cut.
std::string trial_id(const std::string& problem, const Grid& grid,
                     const std::string& implementation, Backend backend = Backend::cpu);

/// Returns the command line that runs a trial of a case again.
std::string reproduce_case(const std::string& case_text, const std::string& implementation,
                           const Grid& grid, Backend backend);

/// Returns a record with the identity and the reproduction line of a trial, before it runs.
TrialRecord describe_trial(const Problem& problem, const std::string& implementation,
                           const Grid& grid, Backend backend = Backend::cpu);

}  // namespace lossgrid
