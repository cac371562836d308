// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_runs.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::size_t commands_of(const std::string& text, const std::string& kind) {
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.starts_with("::" + kind + " ");
  return count;
}

constexpr const char* kExpectedGithub =
    R"text(::error title=lossgrid run::failed (correctness, exit code 10): 1 passed, 1 failed, 1 skipped, 1 crashed
::error title=failed%3A fused on tp2cp4::failed: vocab=96 lens=5+8|tp2cp4|fused|cpu%0A  case: C0%0A  reason: grad_logits: ratio 1.2e+04%0A  explanation: grad_logits is 2.000 x the truth, which tp = 2 would explain%0A  worst check: grad_logits, ratio 1.23e+04, 3 of 672 elements beyond the bound%0A  worst element: rank 2, sequence 1, token 17, vocab id 94: got -0.25, want -0.125%0A  reproduce: lossgrid run --impl fused --grid tp2cp4 --case "vocab=96 lens=5+8"%0A
::error title=crashed%3A fused on tp2cp1::crashed: vocab=96 lens=5+8|tp2cp1|fused|cpu%0A  case: C0%0A  reason: rank 1: it ended%0A  first failed rank: 1%0A  ranks and their last collectives:%0A    rank 0 waiting in forward: all_reduce sum of 8 f32, call #5 of 'tp', entered%0A    rank 1 silent%0A
)text";

TEST(Github, HoldsASmallRun) {
  EXPECT_EQ(exported("github", small_run()), kExpectedGithub);
}

TEST(Github, AGoodRunIsANotice) {
  RunRecord run = small_run();
  run.trials = {sample_trial(1, 1, "fused")};
  run.exit_code = 0;
  EXPECT_EQ(exported("github", run), "::notice title=lossgrid run::passed: 1 passed\n");
  run.suite = "cases/regress/a,b.json";
  EXPECT_THAT(exported("github", run), StartsWith("::notice title="));
  run.suite = "cases/regress/a.json";
  EXPECT_THAT(exported("github", run), StartsWith("::notice file=cases/regress/a.json,title="));
  for (const std::string path : {"/elsewhere/a.json", "../a.json"}) {
    run.suite = path;
    EXPECT_THAT(exported("github", run), StartsWith("::notice title=")) << path;
  }
}

TEST(Github, HoldsTimingsMutantsAndTheMeter) {
  const std::string text = exported("github", bench_run());
  EXPECT_THAT(text, HasSubstr("::warning title=unstable%3A per_sequence forward::lens=64 vocab=512|"
                              "tp2cp1|hot|timing: 9 distinct samples\n"));
  EXPECT_THAT(text, HasSubstr("::error title=above_ceiling%3A per_sequence backward::"));
  EXPECT_THAT(text, HasSubstr("vocab=512|tp2cp1|hot|timing: 131 %25 of read\n"));
  EXPECT_THAT(text,
              HasSubstr("::error title=the meter is wrong%3A copy::measured 2.5 B, expected"));
  RunRecord mutants = sample_mutants_run();
  mutants.mutants[0].rejected = false;
  EXPECT_THAT(exported("github", mutants),
              HasSubstr("::error title=mutant_0%3A a wrong implementation passes::"));
  const std::string compared = exported("github", export_runs().at("ab"));
  EXPECT_THAT(compared,
              HasSubstr("::error title=REGRESSED%3A 1.100 [1.090%2C 1.110]%2C 12 launches"
                        "%2C margin 3 %25::pack: lens=64 vocab=512/probe/slowed:percent=10"
                        " over fused/tp2cp1/forward/hot\n"));
  EXPECT_THAT(compared, HasSubstr("::error title=false alarm%2C REGRESSED%3A "));
  EXPECT_THAT(compared, HasSubstr("::warning title=INCONCLUSIVE%3A "));
  EXPECT_THAT(exported("github", export_runs().at("timing error")),
              HasSubstr("::error title=error%3A lens=64 vocab=512|tp2cp1|hot|timing::why\n"));
}

TEST(Github, ShowsNineErrorsAndTheNumberOfOthers) {
  RunRecord run = small_run();
  run.trials.in_memory().assign(30, sample_failure());
  run.timings = bench_run().timings;
  run.timings[0].rows.assign(30, run.timings[0].rows[0]);
  const std::string text = exported("github", run);
  EXPECT_EQ(commands_of(text, "error"), 10u);
  EXPECT_EQ(commands_of(text, "warning"), 10u);
  EXPECT_THAT(text, HasSubstr("::error title=lossgrid::and 22 more\n"));
  EXPECT_THAT(text, HasSubstr("::warning title=lossgrid::and 21 more\n"));
}

/// Every line is one command of the exporter, with no other one inside.
TEST(Github, TextOfTheReportBeginsNoCommand) {
  std::istringstream lines(exported("github", export_runs().at("markup")) +
                           exported("github", hostile_run()));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("::error title=")) << line;
    const std::string title = line.substr(14, line.find("::", 14) - 14);
    EXPECT_EQ(title.find_first_of(":,\n"), std::string::npos) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\r'), 0) << line;
  }
}

}  // namespace
}  // namespace lossgrid
