// SPDX-License-Identifier: Apache-2.0
// run --list-trials and run --trials.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSmokeTrials =
    "run --suite smoke --impl fused,cp_local --grid tp1cp1,tp2cp2 ";

std::vector<json> listed(const ProcessResult& result) {
  std::vector<json> trials;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) trials.push_back(json::parse(line));
  return trials;
}

std::vector<std::string> ids_in(const std::string& report) {
  std::vector<std::string> ids;
  const json parsed = full_report(report);
  for (const json& trial : parsed["trials"]) ids.push_back(trial["id"]);
  return ids;
}

TEST(TrialChoice, TheListIsWhatARunRuns) {
  const ScratchFolder scratch;
  const ProcessResult list = run_lossgrid(scratch, std::string(kSmokeTrials) + "--list-trials");
  ASSERT_EQ(list.exit_code, 0) << list.err;
  const std::vector<json> trials = listed(list);
  ASSERT_EQ(trials.size(), 6u * 2 * 2);
  EXPECT_EQ(trials[1].dump(), R"({"case":"C0 worked example","grid":"tp2cp2",)"
                              R"("id":"lens=5+8+1+3 mask=all vocab=48|tp2cp2|fused|cpu",)"
                              R"("implementation":"fused"})");
  const std::string report = scratch.file("report.json");
  ASSERT_EQ(run_lossgrid(scratch, kSmokeTrials + ("--report " + report)).exit_code, 0);
  std::vector<std::string> ids;
  for (const json& trial : trials) ids.push_back(trial["id"]);
  EXPECT_EQ(ids_in(report), ids);
}

TEST(TrialChoice, OnlyListedTrialsRunInTheOrderOfTheSuite) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("report.json");
  const std::string ids = scratch.file("ids");
  write_all(ids,
            "lens=6+11+4 vocab=64 dtype=bf16|tp1cp1|cp_local|cpu\n"
            "lens=5+8+1+3 mask=all vocab=48|tp2cp2|fused|cpu\n\n");
  const ProcessResult run =
      run_lossgrid(scratch, kSmokeTrials + ("--trials " + ids + " --report " + report));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\n2 passed\n"));
  EXPECT_THAT(ids_in(report), ElementsAre("lens=5+8+1+3 mask=all vocab=48|tp2cp2|fused|cpu",
                                          "lens=6+11+4 vocab=64 dtype=bf16|tp1cp1|cp_local|cpu"));
}

TEST(TrialChoice, TrialsOfATimedSuiteAreNotTimed) {
  const ScratchFolder scratch;
  const ProcessResult list = run_lossgrid(scratch, "run --suite perf_smoke --list-trials");
  ASSERT_EQ(list.exit_code, 0) << list.err;
  const std::string ids = scratch.file("ids");
  write_all(ids, listed(list).at(0)["id"].get<std::string>() + "\n");
  const std::string report = scratch.file("report.json");
  const ProcessResult run =
      run_lossgrid(scratch, "run --suite perf_smoke --trials " + ids + " --report " + report);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(full_report(report)["trials"].size(), 1u);
  EXPECT_EQ(full_report(report)["timings"].size(), 0u);
}

TEST(TrialChoice, BadInputIsOneLine) {
  const ScratchFolder scratch;
  const std::string ids = scratch.file("ids");
  write_all(ids, "lens=5+8+1+3 mask=all vocab=48|tp2cp2|fused|cpu\nnone|tp1cp1|fused|cpu\n");
  const ProcessResult unknown = run_lossgrid(scratch, kSmokeTrials + ("--trials " + ids));
  EXPECT_EQ(unknown.exit_code, 65);
  EXPECT_EQ(unknown.err, "lossgrid: --trials " + ids +
                             ": line 2: this run has no trial 'none|tp1cp1|fused|cpu' (see "
                             "--list-trials)\n");
  write_all(ids, "\n");
  const ProcessResult empty = run_lossgrid(scratch, kSmokeTrials + ("--trials " + ids));
  EXPECT_EQ(empty.exit_code, 65);
  EXPECT_EQ(empty.err, "lossgrid: --trials " + ids + ": it lists no trial\n");
  const ProcessResult timed =
      run_lossgrid(scratch, std::string(kSmokeTrials) + "--trials x --mode bench");
  EXPECT_EQ(timed.exit_code, 64);
  EXPECT_EQ(timed.err, "lossgrid: --trials is of trials, and --mode bench of timings\n");
  const ProcessResult large =
      run_lossgrid(scratch, "run --suite smoke --grid tp99cp1 --list-trials");
  EXPECT_EQ(large.exit_code, 65);
  EXPECT_THAT(large.err, HasSubstr("tp = 99 exceeds the vocabulary of 48"));
}

}  // namespace
}  // namespace lossgrid
