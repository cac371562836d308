// SPDX-License-Identifier: Apache-2.0
// Runs the trials of suites, one after the other, with the verdicts that need more than one trial
// (the same bits for every packing and TP size).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "harness/comm/faults/fault.h"
#include "harness/core/error.h"
#include "harness/problem/case/suite.h"
#include "harness/runner/finished_work.h"
#include "harness/runner/model/machine.h"
#include "harness/runner/problem_cache.h"
#include "harness/runner/ranks.h"
#include "harness/runner/recording.h"
#include "reports/record/record.h"

namespace lossgrid {

/// by_case: a case on all grids, then the next one. by_grid: all cases on the first grid of their
/// suite, then all on the second one.
enum class TrialOrder { by_case, by_grid };

struct RunOptions {
  TrialOrder order = TrialOrder::by_case;
  std::chrono::milliseconds deadline{std::chrono::seconds(300)};  // of a trial or timed iteration
  std::optional<Fault> fault;
  bool stop_at_failure = false;  // no trial behind the first bad one
  bool explains = false;         // failures, with trials of their own (explain/explainer.h)
  Ranks ranks;
  FinishedWork finished;                    // taken over instead of run
  std::shared_ptr<RunRecording> recording;  // null: nothing beside the report
  std::shared_ptr<const Machine> machine;   // that times are predicted for; null: none
  /// Called for every trial or timing that is about to run, with its id and the command line that
  /// runs it again (empty for a timing).
  std::function<void(const std::string& id, const std::string& reproduce)> begins =
      [](const std::string&, const std::string&) {};
};

/// Returns the fault that strikes the `number`-th trial or timing, from 1; nullopt for the others.
std::optional<Fault> fault_of(const RunOptions& options, std::int64_t number);

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
void add_not_run(std::vector<TrialRecord> planned, const std::string& reason,
                 std::vector<TrialRecord>& trials);

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
ExitCode exit_code_of(const std::vector<TrialRecord>& trials);

}  // namespace lossgrid
