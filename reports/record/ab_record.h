// SPDX-License-Identifier: Apache-2.0
// Record of an A/B comparison, as plain values: one phase of a case on a grid, timed by A and by B
// in several launches, and the verdict. With its text form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/process/terminal.h"
#include "reports/record/ab_statistics.h"
#include "reports/record/field.h"

namespace lossgrid {

struct AbRecord {
  std::string case_title;  // name and text of the case
  std::string grid;        // "tp2cp1"
  std::string cache;
  std::string phase;
  std::string a;  // implementation; of two builds "fused (base)"
  std::string b;  // "fused (head)"; the same as `a`: A against itself
  MedianRatio ratio;
  std::vector<double> launch_ratios;
  std::int64_t pairs = 0;
  double margin = 0;
  std::uint64_t seed = 0;
  AbVerdict verdict = AbVerdict::inconclusive;

  bool is_self_check() const { return a == b; }
  /// A self-check that finds a difference.
  bool is_false_alarm() const;
};

template <typename A>
void fields(A& a, AbRecord& record) {
  a.record("ab",
           "A phase timed by A and by B in several launches. A launch gives one ratio, the median "
           "over its pairs of samples.");
  a("case", record.case_title, "Name and text of the case.");
  a("grid", record.grid, "As in --grid.", {.nonempty = true});
  a("cache", record.cache, "Content of caches before a sample.", {.one_of = "hot cold"});
  a("phase", record.phase, "The timed phase.", {.one_of = "forward backward forward_backward"});
  a("a", record.a, "Implementation with its options; of two builds with (base) behind it.",
    {.nonempty = true});
  a("b", record.b, "The same of B, with (head) behind it. As a: a self-check.", {.nonempty = true});
  a("ratio", record.ratio.median,
    "Time of B / time of A: exp of the median of the log-ratios of launches. Above 1 B is slower.",
    {.positive = true});
  a("low", record.ratio.low, "Lower end of the interval of ratio.");
  a("high", record.ratio.high, "Upper end of the interval of ratio; null when it has no end.",
    {.null = true, .infinite = true});
  a("confidence", record.ratio.confidence,
    "Probability that the interval holds the true median; by order statistics, exact.",
    {.maximum = 1});
  a.computed("launches", static_cast<std::int64_t>(record.launch_ratios.size()),
             "Processes, or pairs of processes of two builds.", {.minimum = 1});
  a("pairs", record.pairs, "Pairs of samples in the launch with the fewest.", {.minimum = 1});
  a("margin", record.margin, "Part of A's time that B may take longer.");
  a("verdict", record.verdict,
    "REGRESSED: low is above 1 + margin; IMPROVED: high is below 1 / (1 + margin); OK: high is "
    "below 1 + margin.",
    {.one_of = "OK IMPROVED INCONCLUSIVE REGRESSED"});
  a("seed", record.seed, "Seed of the random orders.");
  a("launch_ratios", record.launch_ratios, "In the order of the launches.",
    {.positive = true, .min_items = 1});
}

/// Returns the worst of: regressed time_regression, inconclusive with `strict` inconclusive. An
/// improvement never fails. A self-check must be OK: a false alarm is rank_crashed, as for any
/// meter that is wrong, and inconclusive is always inconclusive.
ExitCode exit_code_of(const std::vector<AbRecord>& records, bool strict);

/// Returns a row for each record, a title for each case, grid and state of the cache; then the
/// meaning of the ratios, and the results of self-checks. Lines that end in '\n'; empty when there
/// are no records.
std::string format_ab_table(const std::vector<AbRecord>& records, const TextStyle& style = {});

}  // namespace lossgrid
