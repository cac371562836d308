// SPDX-License-Identifier: Apache-2.0
// The flags that `run` and `bench` share: which suites or cases, with which implementations on
// which grids, how they are timed, and where the report goes. And what both do with them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/cli/backend_flags.h"
#include "harness/cli/command.h"
#include "harness/cli/inject_flag.h"
#include "harness/cli/load_flags.h"
#include "harness/cli/recording_flags.h"
#include "harness/runner/run.h"
#include "reports/text/table.h"

namespace lossgrid {

struct SuiteFlags {
  std::string suite;
  std::vector<std::string> cases;
  std::string implementations;
  std::string grids;
  std::string report;
  std::string resume;
  bool no_retry = false;
  int seeds = 1;
  int max_ranks = 64;
  int threads_per_rank = 0;  // 0: the cores divided by the ranks
  double timeout_s = 300;
  std::string transport = "auto";
  BackendFlags backend;
  LoadFlags load;
  bool quiet = false;
  RecordingFlags recording;
  InjectFlag inject;
};

/// Those that are given; what is not given is as the suite says, or as TimingRequest has it.
struct TimingFlags {
  std::string caches;
  std::string baseline;
  std::int64_t min_samples = 0;
  double max_seconds = 0;
  double target_stderr = 0;
  std::int64_t order_seed = -1;
};

/// Which trials run, and how: all of SuiteFlags but where results go.
void add_trial_flags(CLI::App& command, SuiteFlags& flags);
/// All of SuiteFlags.
void add_suite_flags(CLI::App& command, SuiteFlags& flags);
void add_timing_flags(CLI::App& command, TimingFlags& flags);

/// What is done with the suites, in this order.
struct SuiteModes {
  bool verify = true;
  enum class Bench { never, where_asked, always } bench = Bench::where_asked;
};

/// The suites that `flags` ask for, with a timing request where `modes` times them. `command` is
/// named in errors. Throws usage and bad_input.
std::vector<Suite> requested_suites(const std::string& command, const SuiteFlags& flags,
                                    const TimingFlags& timing, const SuiteModes& modes);

/// What --resume takes over.
AfterFailure after_failure(const SuiteFlags& flags);

/// What a run ends with. With trials alone nothing may have been timed, and the other way round.
ExitCode code_of(const RunRecord& record, const SuiteModes& modes);

/// Tables and summary.
void print_results(const RunRecord& record, const SuiteFlags& flags, TableRows rows);

/// Runs them, prints and writes the report. `command`: "run" or "bench".
ExitCode run_requested(const std::string& command, const SuiteFlags& flags,
                       const TimingFlags& timing, const SuiteModes& modes, TableRows rows);

}  // namespace lossgrid
