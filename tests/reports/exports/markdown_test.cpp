// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/text.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kExpectedMarkdown = R"md(<!-- lossgrid:smoke -->
**lossgrid run** ❌ `failed (correctness, exit code 10): 1 passed, 1 failed, 1 skipped, 1 crashed`

### Trials that did not pass

| status | case | grid | implementation | worst check | ratio | reason |
|---|---|---|---|---|---|---|
| failed | `vocab=96 lens=5+8` | tp2cp4 | `fused` | `grad_logits` | 1e+04 | `grad_logits: ratio 1.2e+04` |
| crashed | `vocab=96 lens=5+8` | tp2cp1 | `fused` | - | - | `rank 1: it ended` |

Suite `smoke`, lossgrid `0.1.0` `abc1234`, `a model`, `2026-01-02T03:04:05Z`
)md";

TEST(Markdown, HoldsASmallRun) {
  EXPECT_EQ(exported("markdown", small_run()), kExpectedMarkdown);
}

/// Every row of a table has as many bars as its head.
void expect_whole_tables(const std::string& text) {
  const auto bars = [](const std::string& line) {
    std::size_t count = 0;
    for (std::size_t k = 0; k < line.size(); ++k) {
      count += line[k] == '|' && (k == 0 || line[k - 1] != '\\') ? 1 : 0;
    }
    return count;
  };
  std::istringstream lines(text);
  std::size_t expected = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) {
      if (!line.starts_with("|")) expected = 0;
      continue;
    }
    if (expected == 0) expected = bars(line);
    EXPECT_EQ(bars(line), expected) << line;
  }
}

TEST(Markdown, TimingsThatAreWrongComeFirst) {
  RunRecord run = bench_run();
  std::rotate(run.timings[0].rows.begin(), run.timings[0].rows.end() - 1,
              run.timings[0].rows.end());
  const std::string text = exported("markdown", run);
  const std::string begin = "| `lens=64 vocab=512` | tp2cp1 | hot | ";
  // Further numbers of rows stand before the status.
  EXPECT_THAT(text, HasSubstr(begin + "`per_sequence` | forward | 1.500 | 1.495..1.506 | 3 | 2.67x "
                                      "| 50 % read | "));
  EXPECT_THAT(text, HasSubstr(" | unstable: `9 distinct samples` |\n"));
  EXPECT_THAT(
      text, HasSubstr(begin + "`fused:chunk_tokens=7` | forward_backward | 2.000 | 1.995..2.006 | "
                              "3 | 2.00x | 50 % read | "));
  EXPECT_THAT(text, HasSubstr(" | timed |\n"));
  EXPECT_LT(text.find("loss: ratio 2"), text.find("fused:chunk_tokens=7"));
  EXPECT_THAT(text, HasSubstr("| `copy` | 1 | 2.5 | `B` |\n"));
  const std::string timeout = exported("markdown", export_runs().at("timing timeout"));
  EXPECT_THAT(timeout, HasSubstr(begin + "- | - | - | - | - | - | - | "));
  EXPECT_THAT(timeout, HasSubstr("| - | timeout: `why` |\n"));
  expect_whole_tables(timeout);
}

TEST(Markdown, ShowsComparisons) {
  const std::string text = exported("markdown", export_runs().at("ab"));
  EXPECT_THAT(text, HasSubstr("`failed (time, exit code 11): A/B: 1 INCONCLUSIVE, 2 REGRESSED`"));
  EXPECT_THAT(text, HasSubstr("| `pack: lens=64 vocab=512` | tp2cp1 | hot | forward | `fused` | "
                              "`probe/slowed:percent=10` | REGRESSED: 1.100 [1.090, 1.110], 12 "
                              "launches, margin 3 % |\n"));
}

TEST(Markdown, ShowsMutantsThatSurvive) {
  RunRecord run = sample_mutants_run();
  EXPECT_THAT(exported("markdown", run), Not(HasSubstr("### Mutants")));
  run.mutants[0].rejected = false;
  run.mutants[3].trials = 0;
  const std::string text = exported("markdown", run);
  EXPECT_THAT(text, HasSubstr("| `mutant_0` | a wrong implementation passes | `the gradient is"));
  EXPECT_THAT(text, Not(HasSubstr("reversed_sum")));  // nothing applies to it
}

/// Cells keep their bars and their lines, in code spans and outside of them.
TEST(Markdown, TextOfTheReportIsNoMarkup) {
  const std::string text = exported("markdown", hostile_run());
  const std::string escape = escape_controls("\x1b"), bell = escape_controls("\x07");
  EXPECT_THAT(text, HasSubstr("| tp2cp4 | `a" + escape + "[31m " + escape_controls("\r") + bell +
                              "\\| <b> \"''%, \\ " + escape_controls("\xc2\x9b \xff") + " z` |"));
  EXPECT_THAT(text, HasSubstr(bell.substr(1) + "\\| \\<b\\>... |"));
  expect_whole_tables(text);
}

/// A comment holds 65,536 bytes, and a cell no bar that is not escaped.
TEST(Markdown, IsBoundedWhateverTheReportHolds) {
  RunRecord run = export_runs().at("markup");
  run.timings = bench_run().timings;
  for (TimingRow& row : run.timings[0].rows) row.reason = std::string(300, '|');
  run.timings.resize(500, run.timings[0]);
  run.meter.resize(500, MeterRecord{std::string(300, '|'), false, 0, 0, "s", ""});
  MutantRecord mutant;
  mutant.name = mutant.what = std::string(300, '|');
  run.mutants.resize(500, mutant);
  for (TrialRecord& trial : run.trials.in_memory()) {
    trial.id = std::string(2000, '|');
    trial.reason = std::string(2000, '|');
  }
  run.trials.in_memory().resize(500, run.trials[1]);
  const std::string text = exported("markdown", run);
  EXPECT_LT(text.size(), 65536u);
  EXPECT_THAT(text, HasSubstr("\nand 478 more\n"));
  EXPECT_TRUE(text.starts_with("<!-- lossgrid:a___b_c -->\n"));

  expect_whole_tables(text);
}

}  // namespace
}  // namespace lossgrid
