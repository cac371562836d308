// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns `value` without the keys that change from run to run.
json stable(const json& value) {
  return without_volatile_keys(nlohmann::ordered_json(value));
}

TEST(Run, SmokePassesAndWritesAReport) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("new/folder/report.json");
  const ProcessResult result = run_lossgrid(scratch, "run --suite smoke --report " + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const json parsed = full_report(report);
  EXPECT_EQ(parsed["schema"], kReportFormat);
  EXPECT_EQ(parsed["run"]["exit_code"], 0);
  EXPECT_EQ(parsed["run"]["status"], "complete");
  ASSERT_GT(parsed["trials"].size(), 50u);
  for (const json& trial : parsed["trials"]) {
    EXPECT_EQ(trial["status"], "passed") << trial["reason"];
    EXPECT_GT(trial["checks"].size(), 3u);
    EXPECT_GT(trial["invariants"].size(), 8u);
    EXPECT_THAT(trial["reproduce"].get<std::string>(), HasSubstr("lossgrid run --impl"));
  }
  EXPECT_FALSE(std::filesystem::exists(report + ".partial.jsonl"));
  EXPECT_THAT(result.out, HasSubstr("cp_local"));
  EXPECT_THAT(result.out, HasSubstr("\ntime: "));
  for (const auto& [stage, ns] : parsed["run"]["stages_ns"].items()) EXPECT_GT(ns, 0) << stage;
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
}

TEST(Run, TwoRunsDifferOnlyInVolatileFields) {
  const ScratchFolder scratch;
  const std::string arguments = "run --suite smoke --quiet --report ";
  ASSERT_EQ(run_lossgrid(scratch, arguments + scratch.file("report.json")).exit_code, 0);
  const json first = full_report(scratch.file("report.json"));
  ASSERT_EQ(run_lossgrid(scratch, arguments + scratch.file("report.json")).exit_code, 0);
  const json second = full_report(scratch.file("report.json"));
  EXPECT_EQ(stable(first).dump(), stable(second).dump());
  EXPECT_NE(first.dump(), second.dump());  // at least the times differ
}

TEST(Run, TheReproductionLineReproduces) {
  const ScratchFolder scratch;
  const ProcessResult first = run_lossgrid(
      scratch,
      "run --case 'lens=5+8 vocab=24' --impl mutant/gradient_times_2 --grid tp2cp2 --report " +
          scratch.file("a.json"));
  EXPECT_EQ(first.exit_code, 10);
  const json a = full_report(scratch.file("a.json"))["trials"][0];
  const std::string line = a["reproduce"];
  ASSERT_TRUE(line.starts_with("lossgrid run"));
  const ProcessResult again =
      run_lossgrid(scratch, line.substr(9) + " --report " + scratch.file("b.json"));
  EXPECT_EQ(again.exit_code, 10);
  const json b = full_report(scratch.file("b.json"))["trials"][0];
  EXPECT_EQ(a["fingerprints"], b["fingerprints"]);
  EXPECT_EQ(a["checks"], b["checks"]);
}

TEST(Run, ADoubledGradientIsExitTenAndNamesTheRow) {
  const ScratchFolder scratch;
  const ProcessResult result =
      run_lossgrid(scratch, "run --suite smoke --impl mutant/gradient_times_2 --quiet");
  EXPECT_EQ(result.exit_code, 10);
  EXPECT_THAT(result.out, HasSubstr("grad_logits"));
  EXPECT_THAT(result.out, ::testing::ContainsRegex("rank [0-9]+, sequence [0-9]+, token [0-9]+"));
  EXPECT_THAT(result.out, HasSubstr("lossgrid run --impl mutant/gradient_times_2 --grid"));
}

TEST(Run, StopsAtTheFirstFailureWhenAsked) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string arguments =
      "run --case 'lens=5+8 vocab=24' --impl mutant/gradient_times_cp,fused "
      "--grid tp1cp1,tp1cp2,tp2cp2 --stop-at-failure --report " +
      report;
  const ProcessResult result = run_lossgrid(scratch, arguments);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 passed, 1 failed, 4 not run"));
  const json left = full_report(report);
  EXPECT_EQ(left["run"]["status"], "partial");
  ASSERT_EQ(left["trials"].size(), 6u);
  EXPECT_EQ(left["trials"][1]["status"], "failed");
  for (std::size_t k = 2; k < 6; ++k) {
    EXPECT_EQ(left["trials"][k]["status"], "not_run");
    EXPECT_EQ(left["trials"][k]["reason"], "an earlier trial did not pass (--stop-at-failure)");
  }
  // A fault after the end of the run is no mistake in the command line.
  const ProcessResult missed =
      run_lossgrid(scratch, arguments + " --inject rank=0,at=forward,trial=6,kind=throw");
  EXPECT_EQ(missed.exit_code, 10) << missed.out << missed.err;
}

TEST(Run, AnUndeclaredGatherIsExitTwelve) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(
      scratch, "run --case 'lens=16 vocab=24' --impl mutant/undeclared_gather --grid tp1cp2");
  EXPECT_EQ(result.exit_code, 12) << result.out;
}

TEST(Run, ShowsEveryGridWhenAsked) {
  const ScratchFolder scratch;
  const std::string arguments = "run --case 'lens=5+8 vocab=24' --impl fused --grid tp1cp2,tp2cp1";
  const ProcessResult folded = run_lossgrid(scratch, arguments);
  EXPECT_THAT(folded.out, HasSubstr("the worst over the grids tp1cp2 tp2cp1"));
  EXPECT_THAT(folded.out, HasSubstr("2 grids"));
  const ProcessResult by_grid = run_lossgrid(scratch, arguments + " --by-grid");
  EXPECT_THAT(by_grid.out, Not(HasSubstr("2 grids")));
  EXPECT_THAT(by_grid.out, ::testing::ContainsRegex("fused +tp1cp2 .*\n +fused +tp2cp1 "));
}

TEST(Run, SweepsCasesAndSeeds) {
  const ScratchFolder scratch;
  const ProcessResult result =
      run_lossgrid(scratch,
                   "run --case 'lens=5+8 vocab=[24,33] dtype=[f32,bf16]' --seeds 3 --impl fused "
                   "--grid tp1cp1,tp2cp1 --report " +
                       scratch.file("r.json"));
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_EQ(full_report(scratch.file("r.json"))["trials"].size(), 2u * 2 * 3 * 2);
}

TEST(Memory, ACaseTooBigForTheMachineIsSkippedWithNeedAndHave) {
  const ScratchFolder scratch;
  const ProcessResult result =
      run_lossgrid(scratch, "run --case 'lens=100000000 vocab=2000000' --impl fused");
  EXPECT_EQ(result.exit_code, 77);
  EXPECT_THAT(result.out, HasSubstr("not enough memory: needs"));
  EXPECT_THAT(result.out, HasSubstr("this machine has"));
  EXPECT_THAT(result.out, Not(HasSubstr("passed, 0")));
}

}  // namespace
}  // namespace lossgrid
