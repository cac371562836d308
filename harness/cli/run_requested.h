// SPDX-License-Identifier: Apache-2.0
// The main loop of `run` and `bench`: the trials and timings that flags ask for, printed and
// reported.
#pragma once

#include <string>

#include "harness/cli/flags/suite_flags.h"
#include "harness/core/error.h"
#include "reports/record/record.h"
#include "reports/text/table.h"

namespace lossgrid {

/// Runs the suites of `flags`: trials, then timings, as `modes` has them. Prints the results,
/// writes the report and returns the exit code. `command`: "run" or "bench". Throws usage and
/// bad_input before anything runs. Every process of a job calls it.
ExitCode run_requested(const std::string& command, const SuiteFlags& flags,
                       const TimingFlags& timing, const SuiteModes& modes, TableRows rows);

/// Returns the exit code of a run: the worst of its trials, timings and meter. With trials alone
/// nothing may have been timed, and the other way round.
ExitCode code_of(const RunRecord& record, const SuiteModes& modes);

/// Prints tables and summary; the summary and what did not pass with --quiet.
void print_results(const RunRecord& record, const SuiteFlags& flags, TableRows rows);

}  // namespace lossgrid
