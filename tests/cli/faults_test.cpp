// SPDX-License-Identifier: Apache-2.0
// Ranks that misbehave, as a user sees them: the run ends within its deadline, its report names the
// right trial with the rank, its phase and the places of all other ranks, and later trials still
// run.
#include <algorithm>
#include <csignal>
#include <ostream>
#include <sstream>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "harness/comm/faults/flight_recorder.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr const char* kTwoTrials =
    "run --case 'lens=5+8 vocab=[24,33]' --impl fused --grid tp2cp2 ";

json read_faulty_report(const std::string& path) {
  return full_report(path);
}

/// Checks that every rank of a trial that was cut short has its phase and its last collective.
void expect_desync_report(const json& trial, std::size_t ranks) {
  ASSERT_EQ(trial["rank_states"].size(), ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const json& rank = trial["rank_states"][r];
    EXPECT_EQ(rank["rank"], r);
    EXPECT_TRUE(rank["phase"].is_string()) << rank;
    ASSERT_FALSE(rank["collectives"].empty()) << rank;
    EXPECT_THAT(rank["collectives"].back().get<std::string>(),
                MatchesRegex("[a-z_]+( .*)?, call #[0-9]+ of '[a-z]+', (entered|done)"));
  }
}

struct Cut {
  const char* fault;
  const char* status;
  int exit_code;
  const char* state;  // state of the rank
  const char* phase;
  int rank;
};

/// Prints the parameter for the names of failing tests.
void PrintTo(const Cut& cut, std::ostream* out) {
  *out << cut.fault;
}

class FaultsOfOneTrial : public ::testing::TestWithParam<Cut> {};

TEST_P(FaultsOfOneTrial, CutItShortAndTheNextOneRuns) {
  const Cut& cut = GetParam();
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, std::string(kTwoTrials) + "--inject " + cut.fault + ",trial=1 --report " + report);
  EXPECT_EQ(result.exit_code, cut.exit_code) << result.out << result.err;
  const json parsed = read_faulty_report(report);
  EXPECT_EQ(parsed["run"]["status"], "complete");
  ASSERT_EQ(parsed["trials"].size(), 2u);
  const json& trial = parsed["trials"][0];
  EXPECT_EQ(trial["status"], cut.status);
  EXPECT_EQ(trial["first_failed_rank"], cut.rank);
  EXPECT_THAT(trial["reason"].get<std::string>(),
              HasSubstr(std::string("rank ") + std::to_string(cut.rank) + " in " + cut.phase));
  expect_desync_report(trial, 4);
  const json& rank = trial["rank_states"][static_cast<std::size_t>(cut.rank)];
  EXPECT_EQ(rank["state"], cut.state);
  EXPECT_EQ(rank["phase"], cut.phase);
  EXPECT_EQ(parsed["trials"][1]["status"], "passed");
  EXPECT_THAT(result.out, HasSubstr("ranks and their last collectives:\n    rank 0 "));
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultsOfOneTrial,
    ::testing::Values(Cut{"rank=0,at=setup,kind=throw", "error", 14, "threw", "setup", 0},
                      Cut{"rank=3,at=check,kind=throw", "error", 14, "threw", "check", 3},
                      Cut{"rank=2,call=2,kind=throw", "error", 14, "threw", "forward", 2},
                      Cut{"rank=1,at=backward,kind=leave", "error", 14, "returned", "backward", 1},
                      Cut{"rank=1,at=plan,kind=oom", "out_of_memory", 14, "threw", "plan", 1},
                      Cut{"rank=3,at=forward,kind=oom", "out_of_memory", 14, "threw", "forward",
                          3}));

TEST(Faults, ANanFailsItsTrialAndTheCheckNamesTheRank) {
  for (const auto& [phase, check] :
       {std::pair{"forward", "logprobs"}, std::pair{"backward", "grad_logits"}}) {
    const ScratchFolder scratch;
    const std::string report = scratch.file("r.json");
    const ProcessResult result = run_lossgrid(
        scratch, std::string(kTwoTrials) + "--inject rank=3,trial=2,kind=nan,at=" + phase +
                     " --report " + report);
    EXPECT_EQ(result.exit_code, 10) << result.out << result.err;
    const json parsed = read_faulty_report(report);
    EXPECT_EQ(parsed["trials"][0]["status"], "passed");
    const json& trial = parsed["trials"][1];
    EXPECT_EQ(trial["status"], "failed");
    EXPECT_TRUE(trial["rank_states"].empty());
    const auto failed = std::find_if(trial["checks"].begin(), trial["checks"].end(),
                                     [&](const json& c) { return c["name"] == check; });
    ASSERT_NE(failed, trial["checks"].end());
    EXPECT_EQ((*failed)["passed"], false);
    EXPECT_EQ((*failed)["worst"]["rank"], 3);
  }
}

TEST(Faults, ARankThatHangsIsExitFifteenWithAReport) {
  for (const char* place : {"call=2", "at=setup", "at=backward"}) {
    const ScratchFolder scratch;
    const std::string report = scratch.file("r.json");
    const ProcessResult result =
        run_lossgrid(scratch, std::string(kTwoTrials) + "--timeout 1 --inject rank=1," + place +
                                  ",kind=hang --report " + report);
    EXPECT_EQ(result.exit_code, 15) << result.out;
    const json parsed = read_faulty_report(report);
    EXPECT_EQ(parsed["run"]["status"], "partial");
    ASSERT_EQ(parsed["trials"].size(), 2u);
    EXPECT_EQ(parsed["trials"][1]["status"], "not_run");
    const json& trial = parsed["trials"][0];
    EXPECT_EQ(trial["status"], "timeout");
    EXPECT_EQ(trial["first_failed_rank"], 1);
    expect_desync_report(trial, 4);
    EXPECT_EQ(trial["rank_states"][1]["state"], "hangs");
    // In its group of tp2 rank 0 waits for it.
    EXPECT_EQ(trial["rank_states"][0]["state"], "waiting");
    EXPECT_THAT(trial["rank_states"][0]["collectives"].back().get<std::string>(),
                HasSubstr("entered"));
  }
}

/// Files of a process that died: the trials of its partial report, and its flight recorder.
struct Left {
  int exit_code = 0;
  std::vector<json> trials;
  std::vector<RankTrace> traces;
};

Left die(const std::string& fault) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string crumbs = scratch.file("crumbs");
  // The first grid has no rank 1, so its trial finishes; the second trial ends the process.
  const ProcessResult result = run_executable(
      scratch, "env",
      "LOSSGRID_BREADCRUMBS='" + crumbs + "' '" + LOSSGRID_EXECUTABLE +
          "' run --case 'lens=5+8 vocab=24' --impl fused --grid tp1cp1,tp2cp1 --report " + report +
          " --inject " + fault);
  EXPECT_FALSE(std::filesystem::exists(report));
  Left left;
  left.exit_code = result.exit_code;
  left.traces = read_flight_records(crumbs);
  std::istringstream lines(read_all(report + ".partial.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json parsed = json::parse(line);
    if (parsed.contains("trial")) left.trials.push_back(parsed["trial"]);
  }
  return left;
}

TEST(Faults, AProcessThatDiesLeavesTheFinishedTrialsAndItsBreadcrumbs) {
  for (const auto& [kind, exit_code] :
       {std::pair{"exit", 3}, std::pair{"segv", 128 + SIGSEGV}, std::pair{"kill", 128 + SIGKILL}}) {
    const Left left = die(std::string("rank=1,at=backward,kind=") + kind);
    EXPECT_EQ(left.exit_code, exit_code) << kind;
    ASSERT_EQ(left.trials.size(), 1u);
    EXPECT_EQ(left.trials[0]["status"], "passed");
    ASSERT_EQ(left.traces.size(), 2u);
    for (const RankTrace& trace : left.traces) {
      EXPECT_TRUE(trace.known);
      ASSERT_FALSE(trace.calls.empty());
    }
    EXPECT_EQ(left.traces[1].phase, RankPhase::backward) << kind;
    EXPECT_FALSE(left.traces[1].in_collective());
    EXPECT_EQ(left.traces[1].calls.back().communicator, "tp");
  }
}

TEST(Faults, BreadcrumbsThatCannotBeWrittenAreReportedBeforeTheTrial) {
  const ScratchFolder scratch;
  const ProcessResult result =
      run_executable(scratch, "env",
                     std::string("LOSSGRID_BREADCRUMBS=/proc/nowhere '") + LOSSGRID_EXECUTABLE +
                         "' run --case 'lens=5+8 vocab=24' --impl fused");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("lossgrid: cannot write /proc/nowhere/rank00000.crumbs"));
}

}  // namespace
}  // namespace lossgrid
