// SPDX-License-Identifier: Apache-2.0
// Interleaved timing: all implementations of one case on one grid, timed in turn in one process, so
// that drift of a shared machine cancels in their ratios. Ranks are threads. Nothing is verified
// here: trials of the same case do that. The number of rounds is fixed, so ranks never diverge.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/problem/suite.h"
#include "harness/runner/problem_cache.h"
#include "reports/timing_record.h"

namespace lossgrid {

struct TimingOutcome {
  TimingRecord record;
  bool rank_hung = false;  // the process must report and end with std::_Exit
};

/// Warms every implementation up once, then runs `request.rounds` rounds in the orders of
/// interleave.h. A sample is forward and backward behind a barrier, the largest over ranks. Every
/// implementation has tensors, plan and device of its own on every rank; its gradient of an LM
/// head's weight goes on adding up over the rounds. Implementations that cannot take the case are
/// listed with the reason. Skipped as a whole: several dp ranks or microbatches, a baseline that
/// cannot be timed, too little memory for all of them at once. `deadline` is that of all rounds
/// together. Throws bad_input for an unknown implementation or a grid that the problem does not
/// fit.
TimingOutcome time_implementations(const PreparedProblem& prepared,
                                   const std::vector<std::string>& implementations,
                                   const Grid& grid, const TimingRequest& request,
                                   std::chrono::milliseconds deadline);

/// Times every case of the suites that ask for it on every grid and calls `sink` for each; a sample
/// may take as long as a trial, `trial_deadline`. Returns true when a rank hangs: then nothing
/// further was timed, and the process must report and end with std::_Exit.
bool time_suites(const std::vector<Suite>& suites, std::chrono::milliseconds trial_deadline,
                 ProblemCache& problems, const std::function<void(const TimingRecord&)>& sink);

/// What the process ends with: that of a crash or a hang, whichever is worse. What was skipped is
/// as it should be; no time is judged.
ExitCode exit_code_of(const std::vector<TimingRecord>& timings);

}  // namespace lossgrid
