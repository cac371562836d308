// SPDX-License-Identifier: Apache-2.0
// Grids of a replay: several grids in one call, and both ways to name a grid.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kBundle = "replay tests/golden/nll_basic.safetensors --impl fused,cp_local ";

std::vector<std::string> trials_in(const std::string& report) {
  std::vector<std::string> trials;
  const nlohmann::json run = full_report(report);
  for (const nlohmann::json& trial : run["trials"]) {
    const std::string id = trial["id"];
    const std::size_t grid = id.find('|') + 1;
    trials.push_back(id.substr(grid, id.rfind('|') - grid));
  }
  return trials;
}

TEST(ReplayGrids, RunOneAfterTheOtherInOneCall) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, kBundle + std::string("--grid tp2cp2,tp1cp4 --grid cp2 --report ") + report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(trials_in(report),
              ElementsAre("tp2cp2|fused", "tp1cp4|fused", "tp1cp2|fused", "tp2cp2|cp_local",
                          "tp1cp4|cp_local", "tp1cp2|cp_local"));
  const nlohmann::json trials = full_report(report)["trials"];
  EXPECT_THAT(trials[1]["reproduce"].get<std::string>(), HasSubstr("--impl fused --grid tp1cp4"));
  // The third grid has the TP size of the second grid.
  for (const nlohmann::json& verdict : trials[2]["determinism"]) {
    if (verdict["name"] != "packing") continue;
    EXPECT_EQ(verdict["detail"], "compared with tp1cp4");
    EXPECT_EQ(verdict["verdict"], "same_bits");
  }
}

TEST(ReplayGrids, CompareExpectedValuesOfOnePackWithOnePackAlone) {
  const ScratchFolder scratch;
  const std::string bundle = scratch.file("b.safetensors");
  const std::string text =
      "objective=clipped_pg objective.loss_agg_mode=token-mean-legacy lens=5+8+3+9 vocab=17";
  ASSERT_EQ(
      run_lossgrid(scratch, "export --case '" + text + "' --expected --out " + bundle).exit_code,
      0);
  const std::string report = scratch.file("r.json");
  const std::string replay = "replay " + bundle + " --impl fused --report " + report;
  const auto has_expected = [&](std::size_t trial) {
    const nlohmann::json checks = full_report(report)["trials"][trial]["checks"];
    return std::any_of(checks.begin(), checks.end(),
                       [](const auto& check) { return check["name"] == "expected.loss"; });
  };
  const ProcessResult result = run_lossgrid(scratch, replay + " --grid tp1cp2,tp1cp1dp2");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("tp1cp1dp2 is not compared with them: the loss depends"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("tp1cp2 is not")));
  EXPECT_TRUE(has_expected(0));
  EXPECT_FALSE(has_expected(1));
  EXPECT_EQ(run_lossgrid(scratch, replay + " --microbatches 2").exit_code, 0);
  EXPECT_FALSE(has_expected(0));
}

TEST(ReplayGrids, AxesNameTheSameGrid) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  ASSERT_EQ(
      run_lossgrid(scratch, kBundle + std::string("--tp 2 --cp 2 --report ") + report).exit_code,
      0);
  EXPECT_THAT(trials_in(report), ElementsAre("tp2cp2|fused", "tp2cp2|cp_local"));
}

TEST(ReplayGrids, CannotBeNamedInBothWays) {
  const ScratchFolder scratch;
  for (const char* axis : {"--tp 2", "--cp 2", "--dp 2", "--pp 2", "--sp", "--tp 1"}) {
    const ProcessResult result =
        run_lossgrid(scratch, kBundle + std::string("--grid tp2cp2 ") + axis);
    EXPECT_EQ(result.exit_code, 64) << axis;
    EXPECT_THAT(result.err, HasSubstr("--grid"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1);
  }
}

TEST(ReplayGrids, OutTakesOne) {
  const ScratchFolder scratch;
  const ProcessResult result =
      run_lossgrid(scratch,
                   "replay tests/golden/nll_basic.safetensors --impl fused "
                   "--grid tp2,cp2 --out " +
                       scratch.file("o.safetensors"));
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_THAT(result.err, HasSubstr("one --grid"));
}

TEST(ReplayGrids, AreNamedWhenTheyAreTooLargeOrNone) {
  const ScratchFolder scratch;
  const ProcessResult large =
      run_lossgrid(scratch, kBundle + std::string("--grid tp2,tp64cp64dp2"));
  EXPECT_EQ(large.exit_code, 65);
  EXPECT_THAT(large.err, HasSubstr("tp64cp64dp2 needs 8192 ranks"));
  const ProcessResult none = run_lossgrid(scratch, kBundle + std::string("--grid tp2,qp4"));
  EXPECT_EQ(none.exit_code, 65);
  EXPECT_THAT(none.err, HasSubstr("qp4"));
}

}  // namespace
}  // namespace lossgrid
