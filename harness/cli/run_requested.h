// SPDX-License-Identifier: Apache-2.0
// Main loop of `run` and `bench`: runs, prints and reports the requested trials and timings.
#pragma once

#include <string>

#include "harness/cli/flags/suite_flags.h"
#include "harness/core/error.h"
#include "reports/record/record.h"
#include "reports/text/table.h"

namespace lossgrid {

/// Runs the suites of `flags`: trials, then timings, as requested by `modes`. Prints the results,
/// writes the report and returns the exit code. `command` is "run" or "bench". Throws usage and
/// bad_input before anything runs. Every process of a job calls it.
ExitCode run_requested(const std::string& command, const SuiteFlags& flags,
                       const TimingFlags& timing, const SuiteModes& modes, TableRows rows);

/// Returns the exit code of a run: the worst of its trials, timings and meter. A run of trials only
/// needs no timings, and a run of timings only needs no trials.
ExitCode run_exit_code(const RunRecord& record, const SuiteModes& modes);

/// Prints tables and summary; with --quiet only the summary and whatever did not pass.
void print_results(const RunRecord& record, const SuiteFlags& flags, TableRows rows);

}  // namespace lossgrid
