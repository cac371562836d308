// SPDX-License-Identifier: Apache-2.0
// Text of a run for people: a table of one row per (case, implementation), grids folded, with worst
// ratios, peak memory, collective calls and bytes; then everything that did not pass, each with the
// line that reproduces it. Plain text of about 130 columns, or as many as the style has; lines end
// in '\n'.
#pragma once

#include <string>
#include <vector>

#include "harness/core/process/terminal.h"
#include "reports/record/record.h"

namespace lossgrid {

enum class TableRows { grids_folded, one_per_grid };

/// Returns the table of trials. Ratios, memory, calls and bytes are the worst over the grids;
/// "worst at" is the grid with the largest ratio. Errors and timeouts count as failed. Empty when
/// there are no trials.
std::string format_trials_table(const RunRecord& run, TableRows rows = TableRows::grids_folded,
                                const TextStyle& style = {});

/// Returns the error of the weight's gradient by number of chunks (see chunk_errors.h), for every
/// case that an implementation ran in three different numbers of chunks or more. An error that
/// grows with the number of chunks comes from accumulation. Empty without such a case.
std::string format_chunk_table(const RunRecord& run, const TextStyle& style = {});

/// Returns peak memory beside that of linear_materialized, measured and predicted (see
/// memory_table.h). Empty where that did not run, or for more than 40 rows.
std::string format_memory_table(const RunRecord& run, const TextStyle& style = {});

/// Returns every mutant with its defect and the checks that rejected it, then the controls, then
/// the score.
std::string format_mutants_table(const RunRecord& run, const TextStyle& style = {});

/// Returns "120 passed, 2 failed, 5 skipped", "timings: 3 timed", and the non-passing trials with
/// reason and reproduction line.
std::string format_summary(const RunRecord& run, const TextStyle& style = {});

/// Returns the first lines of the summary: {"120 passed, 2 failed", "timings: 3 timed"}; of
/// timings, A/B comparisons and mutants only where there are some, of trials unless there are none
/// but those.
std::vector<std::string> count_lines(const RunRecord& run);

/// Returns lines on a trial that did not pass: status, case, reason, ranks, worst check, command
/// line that reproduces it.
std::string format_trial(const TrialRecord& trial, const TextStyle& style = {});

/// Returns the failed check with the largest ratio, null when none failed.
const CheckRecord* worst_failed_check(const TrialRecord& trial);

/// Formats a ratio in at most five characters: "0.25", "12", "1e+04", "inf".
std::string format_ratio(double ratio);

/// "rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125"
std::string format_worst(const WorstElement& worst);

}  // namespace lossgrid
