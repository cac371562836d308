// SPDX-License-Identifier: Apache-2.0
// Times all implementations of one case on one grid in one process, in turn, so that drift of a
// shared machine cancels in their ratios; the ceilings of the machine in the same rounds. The
// outputs of the last timed iteration of each implementation are verified.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/problem/case/suite.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/job/ranks.h"
#include "harness/runner/job/run_options.h"
#include "reports/record/timing_record.h"

namespace lossgrid {

struct TimingOutcome {
  TimingRecord record;
  bool must_end = false;  // a rank hangs or has lost its GPU: the process must report and end with
                          // std::_Exit
};

/// Takes samples by the protocol of harness/measure/sampler.h until the request is met. All
/// implementations have the same batch, padded as those need that are timed
/// (TimingRecord::padding). Implementations that cannot take the case are listed with the reason.
/// Skipped as a whole: several dp ranks, pipeline stages or microbatches, no implementation that
/// takes the case, too little memory for all of them side by side, no device of the backend. An
/// iteration, with its checks, may take as long as `iteration_deadline` on average. Times are not
/// representative with a `recording`, of an emulated GPU, and where ranks share cores or a GPU.
/// Throws bad_input for an unknown implementation or a grid that the problem does not fit.
TimingOutcome time_implementations(const PreparedProblem& prepared,
                                   const std::vector<std::string>& implementations,
                                   const Grid& grid, const TimingRequest& request, CacheMode cache,
                                   std::chrono::milliseconds iteration_deadline,
                                   const Ranks& ranks = Ranks(),
                                   const std::optional<TrialRecording>& recording = std::nullopt,
                                   Backend backend = Backend::cpu,
                                   const std::optional<Fault>& fault = std::nullopt);

/// Times every case of the suites with timing on every grid in every state of the cache and calls
/// `sink` for each. Returns true when the last one must_end: then nothing further was timed.
bool time_suites(const std::vector<Suite>& suites, const RunOptions& options,
                 ProblemCache& problems, const std::function<void(const TimingRecord&)>& sink);

/// Measures known durations, before anything is timed.
std::vector<MeterRecord> test_meter();

/// Returns the exit code of a process, the worst of: wrong outputs correctness, a row above its
/// ceiling time_regression, crash, hang; nothing_ran when all were skipped.
ExitCode exit_code_of(const std::vector<TimingRecord>& timings);

/// Returns rank_crashed when a check of the meter fails: an error of the run.
ExitCode exit_code_of(const std::vector<MeterRecord>& meter);

}  // namespace lossgrid
