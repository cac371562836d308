// SPDX-License-Identifier: Apache-2.0
// Flags that `run` and `bench` share: suites or cases, implementations and grids, timing, and the
// places of results. `ab` takes some of the flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/cli/flags/backend_flags.h"
#include "harness/cli/flags/inject_flag.h"
#include "harness/cli/flags/load_flags.h"
#include "harness/cli/flags/recording_flags.h"
#include "harness/cli/flags/suite_choice.h"
#include "harness/runner/job/finished_work.h"

namespace lossgrid {

struct SuiteFlags : SuiteChoice {
  std::string report;
  std::string resume;
  std::string trials;  // file with ids; empty: all trials
  bool no_retry = false;
  bool stop_at_failure = false;
  int seeds = 1;
  int max_ranks = 0;         // 0: see rank_limit
  int threads_per_rank = 0;  // 0: the cores divided by the ranks
  double timeout_s = 300;
  std::string transport = "auto";
  std::string machine;  // machine for predicted times; empty: no prediction
  BackendFlags backend;
  LoadFlags load;
  bool quiet = false;
  RecordingFlags recording;
  InjectFlag inject;
};

/// Flags of timings. A missing flag leaves the value of the suite or of TimingRequest.
struct TimingFlags {
  std::string caches;
  std::string baseline;
  std::int64_t min_samples = 0;
  double max_seconds = 0;
  double target_stderr = 0;
  std::int64_t order_seed = -1;
};

/// Adds the flags of trials: all SuiteFlags except the places of ranks and results.
void add_trial_flags(CLI::App& command, SuiteFlags& flags);
/// Adds all SuiteFlags.
void add_suite_flags(CLI::App& command, SuiteFlags& flags);
/// Adds all TimingFlags.
void add_timing_flags(CLI::App& command, TimingFlags& flags);

/// Steps of a run over suites, in this order.
struct SuiteModes {
  bool verify = true;
  enum class Bench { never, where_asked, always } bench = Bench::where_asked;
};

/// Loads the files of --load and returns the suites of `flags`, with a timing request if `modes`
/// times them. Errors name `command`. Throws usage and bad_input.
std::vector<Suite> requested_suites(const std::string& command, const SuiteFlags& flags,
                                    const TimingFlags& timing, const SuiteModes& modes);

/// Returns the treatment by --resume of trials that ended by an error, a deadline or a crash.
AfterFailure after_failure(const SuiteFlags& flags);

}  // namespace lossgrid
