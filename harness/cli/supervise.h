// SPDX-License-Identifier: Apache-2.0
// `lossgrid run --supervise`: a process that runs no trial. It owns the launches that do, alone or
// under mpirun or srun, and always writes the report: whatever kills a launch, the trial that had
// begun is marked, and a new launch goes on behind it.
#pragma once

#include <string>

#include "harness/cli/suite_flags.h"

namespace lossgrid {

struct SuperviseFlags {
  bool on = false;
  std::string launcher;          // of a launch; empty: none, ranks are threads
  std::string launches = "all";  // grids of a launch: "all", "grid" for one
  int max_launches = 0;          // 0: as many as finish something
  double launch_timeout_s = 0;   // 0: none
  bool dry_run = false;
};

void add_supervise_flags(CLI::App& command, SuperviseFlags& flags);

/// Throws usage when one of the flags comes without --supervise, and for --supervise under a
/// launcher or without --report.
void require_sensible(const SuperviseFlags& how, const SuiteFlags& flags);

/// Runs what run_requested would run, in launches of this executable with the arguments of this
/// process, and writes their results to one report. An interrupt ends it with the report of what is
/// done and exit_code_of_interrupt.
ExitCode supervise(const SuperviseFlags& how, const std::string& command, const SuiteFlags& flags,
                   const TimingFlags& timing, const SuiteModes& modes, TableRows rows);

}  // namespace lossgrid
