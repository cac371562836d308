// SPDX-License-Identifier: Apache-2.0
// Runs the trials of suites, one after the other, with the verdicts that need more than one trial
// (the same bits for every packing and TP size).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/skip_reason.h"
#include "harness/problem/case/suite.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/job/ranks.h"
#include "harness/runner/job/run_options.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Returns the implementations that run by default: all real ones that start from hidden states, or
/// from logits.
const std::vector<std::string>& default_implementations(bool from_hidden);

/// Called for every finished trial; returning false ends the run.
using TrialSink = std::function<bool(const TrialRecord&)>;

/// Runs all trials. Returns true when a rank hangs or has lost its GPU: then no further trial ran,
/// and the process must report and end with std::_Exit.
bool run_suites(const std::vector<Suite>& suites, const RunOptions& options, ProblemCache& problems,
                const TrialSink& sink);

/// Returns every trial of the suites, by case, as it is before it runs.
std::vector<TrialRecord> planned_trials(const std::vector<Suite>& suites);

/// Adds the trials of `planned` behind those that `trials` has, not_run for `reason`.
void add_not_run(std::vector<TrialRecord> planned, const std::string& reason, TrialList& trials);

/// Returns the reason for which nothing runs behind `last`, a trial that must_end.
SkipReason end_of_run_after(const TrialRecord& last);

/// Compares the bits of trials anew from their fingerprints: for trials of the suites, in their
/// order, that did not come from one run.
void compare_bits(const std::vector<Suite>& suites, std::vector<TrialRecord>& trials);

/// Throws bad_input for suites that no trial could take, before anything runs: unknown
/// implementations and objectives, grids with more than `max_ranks` ranks or than `ranks` has, tp
/// beyond the vocabulary.
void require_runnable(const std::vector<Suite>& suites, int max_ranks,
                      const Ranks& ranks = Ranks());

/// Returns the exit code of a process: the worst of the trials, 77 when none ran.
ExitCode exit_code_of(const TrialList& trials);

}  // namespace lossgrid
