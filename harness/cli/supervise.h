// SPDX-License-Identifier: Apache-2.0
// `lossgrid run --supervise`: a process that runs no trials itself, but starts launches that do,
// alone or under mpirun or srun. It always writes the report: if a launch dies, the trial in
// progress is marked, and a new launch continues after it.
#pragma once

#include <string>

#include "harness/cli/flags/suite_flags.h"
#include "harness/core/error.h"
#include "reports/text/table.h"

namespace lossgrid {

struct SuperviseFlags {
  bool on = false;
  std::string launcher;          // "mpirun -np {ranks}"; empty: ranks are threads
  std::string launches = "all";  // grids of a launch: "all", or "grid" for one
  int max_launches = 0;          // 0: as long as each launch finishes something
  double launch_timeout_s = 0;   // 0: no deadline
  bool dry_run = false;
};

void add_supervise_flags(CLI::App& command, SuperviseFlags& flags);

/// Throws usage for a flag of supervision without --supervise, and for --supervise under a launcher
/// or without --report.
void require_sensible(const SuperviseFlags& how, const SuiteFlags& flags);

/// Runs the trials of run_requested in launches of this executable with the arguments of this
/// process, and writes their results to one report. An interrupt ends the run with a report of the
/// finished work, and the exit code is that of exit_code_of_interrupt.
ExitCode supervise(const SuperviseFlags& how, const std::string& command, const SuiteFlags& flags,
                   const TimingFlags& timing, const SuiteModes& modes, TableRows rows);

}  // namespace lossgrid
