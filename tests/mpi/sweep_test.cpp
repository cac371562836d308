// SPDX-License-Identifier: Apache-2.0
// scripts/sweep with processes: a rank that dies ends its job, not the run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTrials =
    "--case 'lens=5+8 vocab=96' --impl fused,cp_local --grid tp1cp1,tp2cp2 --report ";

ProcessResult sweep(const ScratchFolder& scratch, const std::string& arguments) {
  const std::string script = scratch.file("script");
  write_all(script, fmt::format("LOSSGRID='{}' scripts/sweep --launcher mpirun {}",
                                LOSSGRID_EXECUTABLE, arguments));
  return run_executable(scratch, "/bin/sh", script);
}

std::vector<std::string> statuses_in(const ordered_json& report) {
  std::vector<std::string> statuses;
  for (const ordered_json& trial : report["trials"]) statuses.push_back(trial["status"]);
  return statuses;
}

ordered_json comparable_trials(const ordered_json& report) {
  ordered_json trials = without_volatile_keys(report)["trials"];
  for (ordered_json& trial : trials) trial.erase("transport");
  return trials;
}

class SweepWithADeath : public testing::TestWithParam<std::string> {};

TEST_P(SweepWithADeath, NamesTheTrialAndGoesOn) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result =
      sweep(scratch, fmt::format("-- {}{} --inject rank=2,at=backward,trial=2,kind={}", kTrials,
                                 report, GetParam()));
  EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
  const ordered_json whole = full_report(report);
  EXPECT_EQ(whole["run"]["status"], "complete");
  EXPECT_THAT(statuses_in(whole), ElementsAre("passed", "crashed", "passed", "passed"));
  EXPECT_EQ(whole["environment"]["mpi"]["processes"], 4);
  const ordered_json& dead = whole["trials"][1];
  EXPECT_EQ(dead["transport"], "mpi");
  EXPECT_THAT(dead["reason"].get<std::string>(), HasSubstr("the launcher ended with exit code"));
  ASSERT_EQ(dead["rank_states"].size(), 4u);
  EXPECT_EQ(dead["rank_states"][2]["phase"], "backward");
  EXPECT_FALSE(dead["rank_states"][2]["collectives"].empty());
}

INSTANTIATE_TEST_SUITE_P(Deaths, SweepWithADeath, testing::Values("exit", "kill", "segv"),
                         [](const auto& of) { return of.param; });

TEST(Sweep, WithOneLaunchForEachGridEqualsTheRunOfThreads) {
  const ScratchFolder scratch;
  const std::string threads = scratch.file("threads.json");
  ASSERT_EQ(run_lossgrid(scratch, "run " + (kTrials + threads)).exit_code, 0);
  const std::string report = scratch.file("r.json");
  const ProcessResult result = sweep(scratch, "--per-grid -- " + (kTrials + report));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("launch 1 (tp1cp1): 2 of 4 done\n"));
  EXPECT_EQ(comparable_trials(full_report(report)), comparable_trials(full_report(threads)));
}

}  // namespace
}  // namespace lossgrid
