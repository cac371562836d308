// SPDX-License-Identifier: Apache-2.0
// CP layouts on the command line: the suite, bundles on every layout, reports and bad input.
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLayouts =
    "tp2cp2:contiguous,tp1cp3:ulysses,tp2cp2:zigzag_row,tp1cp3:contiguous_sequence";

/// Returns the names of `lossgrid list layouts`.
std::vector<std::string> listed_layouts() {
  const ScratchFolder scratch;
  std::istringstream lines(run_lossgrid(scratch, "list layouts").out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != ' ') names.push_back(line.substr(0, line.find(' ')));
  }
  return names;
}

void expect_passes(const std::string& arguments) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, arguments);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr(" passed"));
}

TEST(Layouts, TheSuitePasses) {
  expect_passes("run --suite layouts --quiet");
}

TEST(Layouts, TheSuitePassesOnEmulatedDevices) {
  expect_passes(
      "run --suite layouts --impl fused,cp_gather_logits,cp_local,one_sweep,linear_ce "
      "--backend cuda_emulated --quiet");
}

TEST(Layouts, EveryOneOfTheListPasses) {
  const std::vector<std::string> names = listed_layouts();
  EXPECT_THAT(names, testing::Contains("zigzag_row"));
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    expect_passes(
        fmt::format("run --impl reference,fused,cp_local,linear_ce --grid tp2cp2:{0},tp1cp3:{0} "
                    "--case 'lens=5+29+1+15 mask=ragged vocab=24 microbatches=2' "
                    "--case 'lens=5+8+1+3 vocab=24 hidden=8' --quiet",
                    name));
  }
}

TEST(Layouts, BundlesPass) {
  for (const char* bundle : {"grpo_default", "dpo_sum", "nll_linear", "gspo", "distill_forward"}) {
    expect_passes("replay " LOSSGRID_SOURCE_DIR "/tests/golden/" + std::string(bundle) +
                  ".safetensors --grid " + kLayouts);
  }
}

TEST(Layouts, StandInIdReportAndReproductionLine) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "run --impl mutant/shift_at_rank_boundary --grid tp1cp2:contiguous,tp1cp2 "
                   "--case 'lens=5+8+1+3 mask=all vocab=24' --report " +
                       report);
  EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
  const nlohmann::json written = full_report(report);
  ASSERT_EQ(written["trials"].size(), 2u);
  for (const nlohmann::json& trial : written["trials"]) {
    const bool is_zigzag = !trial["grid"].contains("cp_layout");
    EXPECT_EQ(trial["status"], is_zigzag ? "skipped" : "failed");
    if (is_zigzag) continue;
    EXPECT_EQ(trial["grid"]["cp_layout"], "contiguous");
    EXPECT_THAT(trial["id"], HasSubstr("|tp1cp2:contiguous|"));
    EXPECT_THAT(trial["reproduce"], HasSubstr("--grid tp1cp2:contiguous "));
  }
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
}

TEST(Layouts, AnUnknownOneIsOneLine) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "run --suite smoke --grid tp2cp2:spiral");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_EQ(result.err, "lossgrid: grid 'tp2cp2:spiral' has CP layout 'spiral', which is none of " +
                            fmt::format("{}\n", fmt::join(listed_layouts(), ", ")));
}

constexpr const char* kDynamic =
    "--grid tp1cp2dp2:dynamic --case 'lens=3+29+2+15+9 vocab=24 microbatches=3'";

TEST(DynamicGrids, ReportsHaveTheSizesOfMicrobatches) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  const ProcessResult result =
      run_lossgrid(scratch, fmt::format("run --impl cp_local {} --report {}", kDynamic, report));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const nlohmann::json trial = full_report(report)["trials"][0];
  EXPECT_EQ(trial["grid"]["cp_layout"], "dynamic");
  EXPECT_THAT(trial["details"]["cp_sizes"].get<std::string>(), HasSubstr("4"));
  EXPECT_THAT(trial["id"], HasSubstr("|tp1cp2dp2:dynamic|"));
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
}

TEST(DynamicGrids, BundlesPass) {
  expect_passes("replay " LOSSGRID_SOURCE_DIR
                "/tests/golden/grpo_default.safetensors --microbatches 2 "
                "--grid tp2cp2:dynamic,tp1cp2dp2:dynamic");
}

TEST(DynamicGrids, CommandsAboutOnePackNeedItsSize) {
  const ScratchFolder scratch;
  ProcessResult result = run_lossgrid(scratch, fmt::format("bench --impl cp_local {}", kDynamic));
  EXPECT_EQ(result.exit_code, 77);
  EXPECT_THAT(result.out + result.err, HasSubstr("no dynamic grid is timed"));
  result = run_lossgrid(scratch, fmt::format("plan --impl cp_local {}", kDynamic));
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("a pack has no CP size of its own on a dynamic grid"));
}

}  // namespace
}  // namespace lossgrid
