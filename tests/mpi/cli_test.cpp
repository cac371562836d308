// SPDX-License-Identifier: Apache-2.0
// lossgrid under a launcher, as a user starts it: the results of threads bit by bit, one process
// that prints and writes, and an end with a report whatever a rank does.
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "harness/comm/faults/flight_recorder.h"
#include "process.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

ProcessResult run_processes(const ScratchFolder& scratch, int processes,
                            const std::string& arguments) {
  return run_executable(scratch, LOSSGRID_MPIEXEC,
                        fmt::format("{} {} '{}' {}", LOSSGRID_MPIEXEC_NUMPROC_FLAG, processes,
                                    LOSSGRID_EXECUTABLE, arguments));
}

/// Returns a report without members that differ from run to run, and without the transport.
ordered_json comparable_trials(const std::string& path) {
  ordered_json trials = without_volatile_keys(full_report(path))["trials"];
  for (ordered_json& trial : trials) trial.erase("transport");
  return trials;
}

/// Removes explanations: fewer are found in a job, whose grids cannot grow, and in little time.
ordered_json without_explanations(ordered_json trials) {
  for (ordered_json& trial : trials) trial.erase("explanation");
  return trials;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Launched, HasTheBitsOfThreads) {
  const ScratchFolder scratch;
  const std::string threads = scratch.file("threads.json");
  const std::string processes = scratch.file("processes.json");
  const std::string smoke = "run --suite smoke --report ";
  ASSERT_EQ(run_lossgrid(scratch, smoke + threads).exit_code, 0);
  const ProcessResult result = run_processes(scratch, 5, smoke + processes);  // one is idle
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(count_of(result.out, "192 passed"), 1u) << result.out;
  const ordered_json of_processes = full_report(processes);
  for (const ordered_json& trial : of_processes["trials"]) EXPECT_EQ(trial["transport"], "mpi");
  EXPECT_EQ(comparable_trials(processes), comparable_trials(threads));
}

TEST(Launched, HasTheBitsOfThreadsFromHiddenStatesAndForEveryObjective) {
  const ScratchFolder scratch;
  const std::string cases =
      "run --case 'lens=5+8+1+3 vocab=48 hidden=16 microbatches=2' "
      "--case 'lens=5+8+1+3 vocab=48 hidden=16 objective=clipped_pg' "
      "--grid tp2cp2,tp2cp1dp2sp --impl reference,linear_ce --report ";
  const std::string threads = scratch.file("threads.json");
  const std::string processes = scratch.file("processes.json");
  ASSERT_EQ(run_lossgrid(scratch, cases + threads).exit_code, 0);
  const ProcessResult result = run_processes(scratch, 4, cases + processes);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(comparable_trials(processes), comparable_trials(threads));
}

TEST(Launched, HasTheBitsOfThreadsOnPipelineStages) {
  const ScratchFolder scratch;
  const std::string cases =
      "run --case 'lens=5+8+1+3+9 vocab=48 microbatches=3' "
      "--case 'lens=5+8+1+3 vocab=48 hidden=16 microbatches=2' "
      "--grid pp2,tp2cp1pp2,tp1cp1dp2pp2,cp2pp2 --impl fused,cp_local,linear_ce --report ";
  const std::string threads = scratch.file("threads.json");
  const std::string processes = scratch.file("processes.json");
  ASSERT_EQ(run_lossgrid(scratch, cases + threads).exit_code, 0);
  const ProcessResult result = run_processes(scratch, 4, cases + processes);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const ordered_json trials = comparable_trials(processes);
  EXPECT_EQ(count_of(trials.dump(), "\"pp\":2"), 24u);  // 2 cases, 4 grids, 3 implementations
  EXPECT_EQ(trials, comparable_trials(threads));
}

/// A rank of the first stage fails while those of the last wait for its next pack.
TEST(Launched, AStageThatLeavesIsAStatus) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  for (const char* kind : {"throw", "leave"}) {
    const ProcessResult result = run_processes(
        scratch, 4,
        fmt::format("run --case 'lens=5+8+1+3 vocab=48 microbatches=2' --impl fused --grid "
                    "tp2cp1pp2 --inject rank=1,call=2,kind={} --report {}",
                    kind, report));
    EXPECT_EQ(result.exit_code, 14) << result.out << result.err;
    const ordered_json trial = full_report(report)["trials"][0];
    EXPECT_EQ(trial["status"], "error");
    EXPECT_EQ(trial["first_failed_rank"], 1);
  }
}

/// Returns "mutant/a,mutant/b": all mutants, as `list` names them.
std::string all_mutants(const ScratchFolder& scratch) {
  std::istringstream lines(run_lossgrid(scratch, "list mutants").out);
  std::string names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("mutant/")) continue;
    names += (names.empty() ? "" : ",") + line.substr(0, line.find(' '));
  }
  return names;
}

/// Errors are found in the same elements with the same numbers: no finding of a rank is lost on its
/// way.
TEST(Launched, RejectsEveryMutantAsThreadsDo) {
  const ScratchFolder scratch;
  const std::string mutants = all_mutants(scratch);
  const std::string arguments =
      "run --case 'lens=5+8+1+3 vocab=41 objective=clipped_pg mask=ragged microbatches=2' "
      "--case 'lens=5+8+1+3 vocab=48 hidden=16' --grid tp2cp2,tp4cp1 --quiet --impl " +
      mutants + " --report ";
  const std::string threads = scratch.file("threads.json");
  const std::string processes = scratch.file("processes.json");
  ASSERT_NE(run_lossgrid(scratch, arguments + threads).exit_code, 0);
  run_processes(scratch, 4, arguments + processes);
  const ordered_json trials = without_explanations(comparable_trials(processes));
  EXPECT_GT(trials.size(), 300u);
  EXPECT_TRUE(trials == without_explanations(comparable_trials(threads)));
}

TEST(Launched, ReplaysABundleAndGathersItsResults) {
  const ScratchFolder scratch;
  const std::string arguments =
      "replay tests/golden/nll_basic.safetensors --impl fused --tp 2 --cp 2 --out ";
  ASSERT_EQ(run_lossgrid(scratch, arguments + scratch.file("threads")).exit_code, 0);
  const ProcessResult result = run_processes(scratch, 4, arguments + scratch.file("processes"));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_FALSE(read_all(scratch.file("threads")).empty());
  EXPECT_EQ(read_all(scratch.file("processes")), read_all(scratch.file("threads")));
}

TEST(Launched, TimesWithTheSameSampler) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_processes(
      scratch, 2,
      "bench --case 'lens=9+7 vocab=96' --impl fused --grid tp2cp1 --max-seconds 0.2 --report " +
          report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const ordered_json timing = full_report(report)["timings"][0];
  ASSERT_EQ(timing["rows"].size(), 3u);
  for (const ordered_json& row : timing["rows"]) {
    EXPECT_EQ(row["rank_times"].size(), 2u);
    for (const ordered_json& rank : row["rank_times"]) EXPECT_GT(rank["median_ns"], 0);
  }
}

/// Every rank of a trial that was cut short has its phase and its last collective.
void expect_desync_report(const ordered_json& trial, std::size_t ranks) {
  ASSERT_EQ(trial["rank_states"].size(), ranks);
  for (const ordered_json& rank : trial["rank_states"]) {
    EXPECT_TRUE(rank["phase"].is_string()) << rank;
    ASSERT_FALSE(rank["collectives"].empty()) << rank;
    EXPECT_THAT(rank["collectives"].back().get<std::string>(), HasSubstr(", call #"));
  }
}

TEST(Launched, ARankThatThrowsIsAStatusAndTheTrialsBehindItRun) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result =
      run_processes(scratch, 4,
                    "run --suite smoke --impl fused,cp_local --grid tp1cp1,tp2cp2 "
                    "--inject rank=2,call=1,kind=throw --report " +
                        report);
  EXPECT_EQ(result.exit_code, 14) << result.out;
  const ordered_json parsed = full_report(report);
  EXPECT_EQ(parsed["run"]["exit_code"], 14);
  ASSERT_EQ(parsed["trials"].size(), 24u);
  expect_desync_report(parsed["trials"][1], 4);
  for (const ordered_json& trial : parsed["trials"]) {
    const bool alone = trial["grid"]["tp"] == 1;  // no rank 2
    EXPECT_EQ(trial["status"], alone ? "passed" : "error");
    EXPECT_EQ(trial["first_failed_rank"].dump(), alone ? "null" : "2");
  }
}

/// Processes that do not agree on the end wait for each other for minutes: the limit ends them.
TEST(Launched, AllProcessesStopAtTheFirstFailureWhenAsked) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_executable(
      scratch, "timeout",
      fmt::format("-k 5 60 '{}' {} 4 '{}' run --case 'lens=5+8 vocab=24' --impl "
                  "mutant/gradient_times_cp,fused --grid tp1cp1,tp1cp2,tp2cp2 --stop-at-failure "
                  "--report {}",
                  LOSSGRID_MPIEXEC, LOSSGRID_MPIEXEC_NUMPROC_FLAG, LOSSGRID_EXECUTABLE, report));
  ASSERT_EQ(result.exit_code, 10) << result.out << result.err;
  EXPECT_EQ(count_of(result.out, "1 passed, 1 failed, 4 not run"), 1u) << result.out;
  const ordered_json left = full_report(report);
  EXPECT_EQ(left["run"]["status"], "partial");
  ASSERT_EQ(left["trials"].size(), 6u);
  for (std::size_t k = 2; k < 6; ++k) {
    EXPECT_EQ(left["trials"][k]["reason"], "an earlier trial did not pass (--stop-at-failure)");
  }
}

struct Cut {
  const char* fault;
  const char* status;
  int exit_code;
};

TEST(Launched, FaultsInAPhaseCutOneTrialShort) {
  for (const Cut& cut :
       {Cut{"at=forward,kind=throw", "error", 14}, Cut{"at=check,kind=oom", "out_of_memory", 14},
        Cut{"at=backward,kind=nan", "failed", 10}}) {
    const ScratchFolder scratch;
    const std::string report = scratch.file("r.json");
    const ProcessResult result =
        run_processes(scratch, 4,
                      std::string("run --case 'lens=5+8 vocab=[24,33]' --impl fused --grid tp2cp2 "
                                  "--inject rank=3,trial=1,") +
                          cut.fault + " --report " + report);
    EXPECT_EQ(result.exit_code, cut.exit_code) << result.out << result.err;
    const ordered_json trials = full_report(report)["trials"];
    ASSERT_EQ(trials.size(), 2u);
    EXPECT_EQ(trials[0]["status"], cut.status);
    EXPECT_EQ(trials[1]["status"], "passed");
    if (cut.exit_code == 10) {
      EXPECT_TRUE(trials[0]["rank_states"].empty());
      EXPECT_THAT(trials[0]["reason"].get<std::string>(), HasSubstr("grad_logits: ratio inf at "
                                                                    "rank 3"));
      continue;
    }
    EXPECT_EQ(trials[0]["first_failed_rank"], 3);
    expect_desync_report(trials[0], 4);
    EXPECT_EQ(trials[0]["rank_states"][3]["state"], "threw");
    EXPECT_EQ(trials[0]["rank_states"][3]["phase"],
              std::string(cut.fault).substr(3, std::string(cut.fault).find(',') - 3));
    EXPECT_EQ(trials[0]["rank_states"][2]["state"], "waiting");
  }
}

TEST(Launched, AFaultThatFiredNowhereEndsAllProcessesWithOneLine) {
  const ScratchFolder scratch;
  for (const std::string command :
       {"run --case 'lens=5+8 vocab=24' --impl fused --grid tp2cp1 --quiet",
        "bench --case 'lens=5+8 vocab=24' --impl fused --grid tp2cp1 --min-samples 2 "
        "--target-stderr 1 --quiet",
        "replay tests/golden/nll_basic.safetensors --impl fused --tp 2"}) {
    // Rank 2 is there, and takes part in no grid.
    const ProcessResult missed =
        run_processes(scratch, 3, command + " --inject rank=2,at=plan,kind=kill");
    EXPECT_EQ(missed.exit_code, 64) << command << missed.out << missed.err;
    EXPECT_EQ(count_of(missed.err, "the fault never fired"), 1u) << missed.err;
    // Process 0, which reports, has the trace of rank 1 from its process.
    const ProcessResult fired =
        run_processes(scratch, 3, command + " --inject rank=1,at=backward,kind=nan");
    EXPECT_EQ(fired.exit_code, 10) << command << fired.out << fired.err;
    EXPECT_EQ(count_of(fired.err, "the fault never fired"), 0u);
  }
}

TEST(Launched, ARankThatHangsEndsByTheDeadlineWithAReport) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = run_processes(
      scratch, 2,
      "run --case 'lens=4 vocab=9' --impl per_sequence,cp_local --grid tp2cp1 --timeout 1 "
      "--inject rank=1,at=backward,kind=hang --report " +
          report);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(result.exit_code, 15) << result.out << result.err;
  const ordered_json parsed = full_report(report);
  EXPECT_EQ(parsed["run"]["status"], "partial");
  ASSERT_EQ(parsed["trials"].size(), 2u);
  EXPECT_EQ(parsed["trials"][1]["status"], "not_run");
  EXPECT_EQ(parsed["trials"][0]["status"], "timeout");
  EXPECT_EQ(parsed["trials"][0]["first_failed_rank"], 1);
  expect_desync_report(parsed["trials"][0], 2);
  EXPECT_EQ(parsed["trials"][0]["rank_states"][0]["state"], "waiting");
  EXPECT_EQ(parsed["trials"][0]["rank_states"][1]["state"], "hangs");
  EXPECT_EQ(parsed["trials"][0]["rank_states"][1]["phase"], "backward");
}

/// Returns the trials that passed. A launcher signals the other processes to end, and rank 0 then
/// writes the report, unless it is killed before.
std::size_t finished_trials(const std::string& report) {
  if (!std::filesystem::exists(report)) {
    return count_of(read_all(report + ".partial.jsonl"), "\n{\"trial\":");
  }
  std::size_t passed = 0;
  const ordered_json left = full_report(report);
  EXPECT_EQ(left["run"]["status"], "partial");
  for (const ordered_json& trial : left["trials"]) passed += trial["status"] == "passed";
  return passed;
}

TEST(Launched, AProcessThatDiesLeavesFinishedTrialsAndAFlightRecord) {
  for (const char* kind : {"exit", "segv", "kill"}) {
    const ScratchFolder scratch;
    const std::string report = scratch.file("r.json");
    const std::string crumbs = scratch.file("crumbs");
    ::setenv("LOSSGRID_BREADCRUMBS", crumbs.c_str(), 1);
    const ProcessResult result = run_processes(
        scratch, 4,
        std::string("run --case 'lens=5+8 vocab=24' --impl fused --grid tp1cp1,tp2cp2 --inject "
                    "rank=2,at=backward,kind=") +
            kind + " --report " + report);
    ::unsetenv("LOSSGRID_BREADCRUMBS");
    EXPECT_NE(result.exit_code, 0) << kind;
    EXPECT_EQ(finished_trials(report), 1u) << kind;
    const std::vector<RankTrace> traces = read_flight_records(crumbs);
    ASSERT_EQ(traces.size(), 4u);
    for (const RankTrace& trace : traces) {
      EXPECT_TRUE(trace.known) << trace.rank;
      EXPECT_EQ(trace.end, RankEnd::running);
      EXPECT_FALSE(trace.calls.empty());
    }
    EXPECT_EQ(traces[2].phase, RankPhase::backward) << kind;
    EXPECT_FALSE(traces[2].in_collective());
  }
}

TEST(Launched, CutsPacksByAnyLayout) {
  const ScratchFolder scratch;
  const ProcessResult result = run_processes(
      scratch, 3,
      "run --suite layouts --impl fused,cp_local,linear_ce --quiet --grid "
      "tp1cp3:contiguous,tp1cp3:ulysses,tp1cp2:zigzag_row,tp1cp2:contiguous_sequence");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(count_of(result.out, " passed"), 1u) << result.out;
}

TEST(Launched, AJobThatDiedIsCompletedByAnother) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string smoke =
      "run --suite smoke --impl fused --grid tp1cp1,tp2cp2 --report " + report;
  EXPECT_NE(run_processes(scratch, 4, smoke + " --inject rank=2,call=1,kind=exit").exit_code, 0);
  EXPECT_GE(finished_trials(report), 1u);
  const ProcessResult resumed = run_processes(scratch, 4, smoke + " --resume " + report);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  const ordered_json parsed = full_report(report);
  EXPECT_EQ(parsed["run"]["status"], "complete");
  ASSERT_EQ(parsed["trials"].size(), 12u);
  for (const ordered_json& trial : parsed["trials"]) EXPECT_EQ(trial["status"], "passed");
}

TEST(Launched, ErrorsArePrintedOnce) {
  const ScratchFolder scratch;
  const ProcessResult small = run_processes(scratch, 2, "run --suite smoke");
  EXPECT_EQ(small.exit_code, 65);
  EXPECT_EQ(count_of(small.err, "lossgrid: grid tp2cp2 needs 4 ranks, the MPI job has 2 processes"),
            1u)
      << small.err;
  const ProcessResult unwritable =
      run_processes(scratch, 2, "run --case 'lens=4 vocab=9' --report /proc/nowhere/r.json");
  EXPECT_EQ(unwritable.exit_code, 65);
  EXPECT_EQ(count_of(unwritable.err, "lossgrid: cannot write /proc/nowhere/r.json"), 1u)
      << unwritable.err;
  const ProcessResult unknown = run_processes(scratch, 2, "run --sweet smoke");
  EXPECT_EQ(unknown.exit_code, 64);
  EXPECT_EQ(count_of(unknown.err, "lossgrid: "), 1u) << unknown.err;
}

TEST(Launched, CommandsWithoutRanksRunOnce) {
  const ScratchFolder scratch;
  const ProcessResult result = run_processes(scratch, 3, "list suites");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(count_of(result.out, "\nsmoke "), 1u) << result.out;
}

TEST(Launched, OneTransportCanBeForced) {
  const ScratchFolder scratch;
  const std::string arguments = "run --case 'lens=4 vocab=9' --impl fused --report ";
  const std::string report = scratch.file("r.json");
  ASSERT_EQ(run_lossgrid(scratch, arguments + report + " --transport mpi").exit_code, 0);
  EXPECT_EQ(full_report(report)["trials"][0]["transport"], "mpi");
  ASSERT_EQ(run_processes(scratch, 1, arguments + report + " --transport thread").exit_code, 0);
  EXPECT_EQ(full_report(report)["trials"][0]["transport"], "thread");
  EXPECT_EQ(run_lossgrid(scratch, arguments + report + " --transport pigeon").exit_code, 64);
}

}  // namespace
}  // namespace lossgrid
