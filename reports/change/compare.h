// SPDX-License-Identifier: Apache-2.0
// What changed from one report to another, trial by trial: verdicts first, then counters, which are
// exact and so compared exactly, then times. Times of two runs are not comparable, but each run has
// a reference beside every row (the baseline of its speed-ups, else the ceiling of the machine),
// and the ratios to it are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/terminal.h"
#include "reports/record/record.h"

namespace lossgrid {

enum class ChangeKind {
  coverage,       // a trial or timed row of BASE that HEAD does not have, or did not run
  verdict,        // of a trial
  memory,         // peak bytes or allocations of a rank in a phase
  communication,  // calls or payload of an operation of a group in a phase
  time,           // of a row, relative to the reference of its own run
};

enum class ChangeVerdict {
  regressed,
  inconclusive,  // of times only: the interval reaches to both sides of the margin
  improved,
  added,  // HEAD alone has it
};

std::string_view name(ChangeKind kind);
std::string_view name(ChangeVerdict verdict);

struct Change {
  ChangeKind kind = ChangeKind::verdict;
  ChangeVerdict verdict = ChangeVerdict::regressed;
  std::string subject;  // id of the trial; of a timing with implementation and phase
  std::string what;     // "rank 0 forward: peak bytes", "forward cp: all_gather calls"
  std::string base;
  std::string head;
  // Of counters and times, HEAD / BASE; of times with an interval of two standard errors.
  std::optional<double> ratio;
  std::optional<double> ratio_low;
  std::optional<double> ratio_high;
  ExitCode code = ExitCode::ok;  // of what regressed
};

struct Comparison {
  std::int64_t trials = 0;       // in both reports
  std::int64_t rows = 0;         // timed, in both
  std::vector<Change> changes;   // regressed ones first, by kind, then as in the reports
  double time_margin_ratio = 0;  // that a row may be slower by
  // One line about a HEAD that did not come to its end; empty when it did. What it did not reach is
  // no change of its own.
  std::string dead_head;
  ExitCode dead_head_code = ExitCode::ok;  // rank_crashed or hang
  // Circumstances that change no exit code: other machines or builds, times that say little, trials
  // that fail in both.
  std::vector<std::string> notes;

  std::int64_t count(ChangeVerdict verdict) const;
};

/// What a timed row is known by: the subject of its changes.
std::string row_id(const TimingRecord& timing, const TimingRow& row);

/// `time_margin_ratio`: 0.1 lets a row be 10 % slower. Throws bad_input when the reports have no
/// trial and no timed row in common and HEAD came to its end.
Comparison compare_reports(const RunRecord& base, const RunRecord& head, double time_margin_ratio);

/// The worst of: a dead HEAD crash or hang, lost coverage and wrong results `correctness`, crash
/// and hang as such, counters and costs that are not as predicted `cost_regression`, times
/// `time_regression`; with `strict` an inconclusive time `inconclusive`. What improved never fails.
ExitCode exit_code_of(const Comparison& comparison, bool strict);

std::string format_comparison(const Comparison& comparison, const TextStyle& style = {});
std::string comparison_markdown(const Comparison& comparison);
nlohmann::ordered_json comparison_to_json(const Comparison& comparison);

}  // namespace lossgrid
