// SPDX-License-Identifier: Apache-2.0
// Runs one trial on ranks that are threads and turns what the ranks found into a record: the one
// place where an exception becomes a status.
#pragma once

#include <chrono>
#include <optional>

#include "harness/problem/bundle/bundle.h"
#include "harness/runner/problem_cache.h"
#include "harness/runner/ranks.h"
#include "harness/runner/trial/trial_setup.h"
#include "harness/verify/check.h"
#include "reports/record/record.h"

namespace lossgrid {

struct TrialOutcome {
  TrialRecord record;
  bool must_end = false;  // a rank hangs or has lost its GPU: the process must report and end with
                          // std::_Exit
  std::optional<BundleResults> outputs;  // in the unsharded layout, with setup.keep_outputs
};

/// Throws what make_trial throws, and makes no truth.
void require_trial(const PreparedProblem& prepared, const std::string& implementation,
                   const Grid& grid);

/// The trial of an implementation on a grid: its truth, and its parts for dp ranks and
/// microbatches. Throws bad_input for an unknown implementation, a grid that the problem does not
/// fit, or a file of results that is not of the problem.
TrialSetup make_trial(const PreparedProblem& prepared, const std::string& implementation,
                      const Grid& grid, Backend backend = Backend::cpu);

/// A trial that does not fit, or that the implementation cannot take, is skipped with the reason.
/// Where this process does not report, one that ran stays not_run.
TrialOutcome run_trial(const TrialSetup& setup, std::chrono::milliseconds deadline,
                       const Ranks& ranks = Ranks());

/// What a trial returned, compared with what its bundle expects: the bounds of the truth around the
/// bundle's values.
std::vector<Check> check_outputs(const TrialSetup& setup, const BundleResults& expected,
                                 const BundleResults& outputs);

/// What a trial is known by in reports; `problem` is the text of its case, or what a bundle is.
std::string trial_id(const std::string& problem, const Grid& grid,
                     const std::string& implementation, Backend backend = Backend::cpu);

/// The status of a trial in which a rank failed with `code`.
TrialStatus status_of(ErrorCode code);
/// The status of a timing that ended as a trial ends with `status`.
TimingStatus timing_status(TrialStatus status);

/// The command line that runs a trial of a case again; `source`: "--case "TEXT"".
std::string reproduce_case(const std::string& source, const std::string& implementation,
                           const Grid& grid, Backend backend);

/// Identity and reproduction line of a trial, before it runs.
TrialRecord describe_trial(const Problem& problem, const std::string& implementation,
                           const Grid& grid, Backend backend = Backend::cpu);

}  // namespace lossgrid
