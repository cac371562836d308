// SPDX-License-Identifier: Apache-2.0
// `Comparison`: the changes from one report to another, trial by trial: verdicts first, then
// counters, which are exact and so compared exactly, then times. Times of two runs are not
// comparable, but each run has a reference beside every row (the baseline of its speed-ups, else
// the ceiling of the machine), and the ratios to it are. Numbers are judged by the rules of a
// built-in policy: no counter may grow, a time by a margin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/process/terminal.h"
#include "reports/change/finding.h"

namespace lossgrid {

struct Comparison {
  std::int64_t trials = 0;        // in both reports
  std::int64_t rows = 0;          // timed, in both
  std::vector<Finding> findings;  // regressed ones first, by kind, then as in the reports
  double time_margin_ratio = 0;   // that a row may be slower by
  // One line about a HEAD that did not come to its end; empty when it did. Trials and rows that it
  // did not reach are no changes of their own.
  std::string dead_head;
  ExitCode dead_head_code = ExitCode::ok;  // rank_crashed or hang
  // Circumstances that change no exit code: other machines or builds, times of little weight,
  // trials that fail in both.
  std::vector<std::string> notes;
};

/// `time_margin_ratio`: 0.1 lets a row be 10 % slower. Throws bad_input when the reports have no
/// trial and no timed row in common and HEAD came to its end.
Comparison compare_reports(const RunRecord& base, const RunRecord& head, double time_margin_ratio);

/// Returns the worst of: a dead HEAD crash or hang, lost coverage and wrong results `correctness`,
/// crash and hang as such, counters and costs that are not as predicted `cost_regression`, times
/// `time_regression`; with `strict` an inconclusive time `inconclusive`. Improvements never fail.
ExitCode exit_code_of(const Comparison& comparison, bool strict);

std::string format_comparison(const Comparison& comparison, const TextStyle& style = {});
std::string comparison_markdown(const Comparison& comparison);
nlohmann::ordered_json comparison_to_json(const Comparison& comparison);

}  // namespace lossgrid
