// SPDX-License-Identifier: Apache-2.0
// Process of an A/B launch: `bench` of this executable or of another build, with ranks as threads,
// which writes a report of one timing. Any build with `bench` and this version of the report works.
#pragma once

#include <string>
#include <vector>

#include "harness/runner/timing/ab_comparison.h"

namespace lossgrid {

/// Options that all processes of a comparison share.
struct AbLaunchRequest {
  std::string base_binary;
  std::string case_text;
  std::string grid;
  std::string cache;
  std::int64_t pairs = 30;
  double max_seconds = 30;
  double timeout_s = 300;         // deadline of one iteration
  int max_ranks = 0;              // 0: kMostRanks
  int threads_per_rank = 0;       // 0: the default of `bench`
  std::vector<std::string> load;  // files with implementations
  std::string python;             // interpreter of the files; empty: the default of `bench`
};

/// Returns the words of the command line; the report goes to `report`.
std::vector<std::string> ab_command(const AbLaunchRequest& request, const AbProcess& process,
                                    const std::string& report);

/// Exception of an interrupted comparison.
struct AbInterrupted {};

/// Runs the process and reads its report. A process that dies, takes too long or times nothing
/// becomes a record of status error or timeout. Throws bad_input if it cannot be started or refuses
/// its arguments (with its reason on stderr), and for a report that cannot be read. After an
/// interrupt throws AbInterrupted, as soon as the process has ended.
TimingRecord run_ab_process(const AbLaunchRequest& request, const AbProcess& process);

}  // namespace lossgrid
