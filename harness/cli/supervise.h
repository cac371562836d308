// SPDX-License-Identifier: Apache-2.0
// `lossgrid run --supervise`: a process that runs no trial itself. It starts launches that do,
// alone or under mpirun or srun, and always writes the report: if a launch dies, the trial that had
// begun is marked, and a new launch continues behind it.
#pragma once

#include <string>

#include "harness/cli/flags/suite_flags.h"
#include "harness/core/error.h"
#include "reports/text/table.h"

namespace lossgrid {

struct SuperviseFlags {
  bool on = false;
  std::string launcher;          // "mpirun -np {ranks}"; empty: none, ranks are threads
  std::string launches = "all";  // grids of a launch: "all", or "grid" for one
  int max_launches = 0;          // 0: as long as each finishes something
  double launch_timeout_s = 0;   // 0: none
  bool dry_run = false;
};

void add_supervise_flags(CLI::App& command, SuperviseFlags& flags);

/// Throws usage for one of the flags without --supervise, and for --supervise under a launcher or
/// without --report.
void require_sensible(const SuperviseFlags& how, const SuiteFlags& flags);

/// Runs the trials of run_requested in launches of this executable with the arguments of this
/// process, and writes their results to one report. An interrupt ends it with the report of the
/// finished work and exit_code_of_interrupt.
ExitCode supervise(const SuperviseFlags& how, const std::string& command, const SuiteFlags& flags,
                   const TimingFlags& timing, const SuiteModes& modes, TableRows rows);

}  // namespace lossgrid
