// SPDX-License-Identifier: Apache-2.0
// The process of an A/B launch: `bench` of this executable or of another build, with ranks as
// threads, which leaves a report of one timing. Any build that has `bench` and writes this version
// of the report will do.
#pragma once

#include <string>
#include <vector>

#include "harness/runner/timing/ab_comparison.h"

namespace lossgrid {

/// What all processes of a comparison have in common.
struct AbLaunchRequest {
  std::string base_binary;
  std::string case_text;
  std::string grid;
  std::string cache;
  std::int64_t pairs = 30;
  double max_seconds = 30;
  double timeout_s = 300;  // of one iteration
  int max_ranks = 64;
  int threads_per_rank = 0;       // 0: as `bench` has it
  std::vector<std::string> load;  // files with implementations
  std::string python;             // that runs them; empty: as `bench` has it
};

/// The words to start; the report goes to `report`.
std::vector<std::string> ab_command(const AbLaunchRequest& request, const AbProcess& process,
                                    const std::string& report);

/// Thrown where an interrupt was noted.
struct AbInterrupted {};

/// Runs it and reads what it left. A process that dies, takes too long or times nothing is an error
/// or timeout. Throws bad_input when it cannot be started or refuses its arguments (it has said on
/// stderr why), and for a report that cannot be read; AbInterrupted, when the process has ended.
TimingRecord run_ab_process(const AbLaunchRequest& request, const AbProcess& process);

}  // namespace lossgrid
