// SPDX-License-Identifier: Apache-2.0
// Session of the processes that a launcher started for one run (MPI), if this process is one of
// them. All processes parse the same command line; only rank 0 prints and writes.
#pragma once

#include <optional>
#include <string>

#include "harness/core/error.h"
#include "harness/runner/job/ranks.h"
#include "reports/file/report_writer.h"

namespace CLI {
class App;
}

namespace lossgrid {

/// Adds --transport to a command that runs trials.
void add_transport_flag(CLI::App& command, std::string& transport);

/// Returns the ranks of a run. `transport` is "auto" (processes under a launcher, else threads),
/// "thread", "mpi", or "nccl" (like "auto", with NCCL between GPUs). The first call that needs a
/// session begins it. Throws usage if this build has no MPI.
Ranks start_ranks(const std::string& transport);

/// Returns the writer of a report at `path` on the process that reports; nullopt on other processes
/// or for an empty path. Collective: throws bad_input on all processes if the report cannot be
/// opened.
std::optional<ReportWriter> open_report(const std::string& path, const RunRecord& run,
                                        const Ranks& ranks);

/// True on the only process of a run that prints.
bool is_printing_process();

/// Ends a session that has begun and returns the exit code of rank 0. Does not return if a rank
/// hangs.
int end_session(int exit_code);

}  // namespace lossgrid
