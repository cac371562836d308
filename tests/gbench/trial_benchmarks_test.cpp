// SPDX-License-Identifier: Apache-2.0
// Trials as benchmarks inside of this process: the samples of a phase, and an implementation that
// fails in the trial or later. No test reads a time.
#include "harness/gbench/trial_benchmarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collector.h"
#include "harness/problem/case/case_spec.h"
#include "harness/runner/trial/trial.h"
#include "probe.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kTimedCase = "lens=5+8+3 vocab=24";
using Runs = std::vector<CollectedRun>;

/// All phases of `implementation` with `iterations`.
Runs run_benchmarks(const std::string& implementation, const std::string& grid, TrialRuns& runs,
                    std::int64_t iterations = 2, const std::string& text = kTimedCase) {
  Suite suite;
  suite.cases = {parse_case(text)};
  suite.cases[0].name = "c";
  suite.grids = {parse_grid(grid)};
  suite.implementations = {implementation};
  runs.session.iterations = iterations;
  TrackerMemory memory;
  register_trials({suite}, runs, memory);
  return run_registered(memory);
}

TEST(TrialBenchmarks, AreNamedAndRunAsOftenAsAsked) {
  TrialRuns runs;
  const Runs found = run_benchmarks("fused", "tp2cp1", runs, 5);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0].run.benchmark_name(), "trial/c/fused/tp2cp1/forward/iterations:5/manual_time");
  EXPECT_EQ(found[1].run.benchmark_name(),
            "trial/c/fused/tp2cp1/backward/iterations:5/manual_time");
  for (const auto& [run, peak, allocations] : found) {
    EXPECT_FALSE(run.error_occurred) << run.error_message;
    EXPECT_EQ(run.iterations, 5);
    EXPECT_GT(run.GetAdjustedRealTime(), 0);
    EXPECT_GT(peak, 0);
    EXPECT_GE(allocations, 0);
    EXPECT_EQ(run.counters.at("ranks"), 2);
    EXPECT_GT(run.counters.at("items_per_second"), 0);
    EXPECT_GT(run.counters.at("bytes_per_second"), 0);
  }
  EXPECT_EQ(runs.session.code, ExitCode::ok);
}

TEST(TrialBenchmarks, OneSweepHasOnePhase) {
  TrialRuns runs;
  const Runs found = run_benchmarks("one_sweep", "tp1cp1", runs);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].run.benchmark_name(), HasSubstr("/tp1cp1/forward_backward/"));
}

// The largest over ranks, and for both phases together the larger of the two.
TEST(TrialBenchmarks, ReportTheMemoryOfATrial) {
  TrialRuns runs;
  const Runs found = run_benchmarks("fused", "tp2cp2", runs);
  const PreparedProblem prepared = prepare(make_problem(parse_case(kTimedCase)));
  const TrialRecord trial =
      run_trial(make_trial(prepared, "fused", {2, 2}), std::chrono::seconds(60)).record;
  std::map<std::string, std::int64_t> peaks;
  for (const PhaseMemoryRecord& measured : trial.memory) {
    std::int64_t& peak = peaks[measured.phase];
    peak = std::max(peak, measured.measured_peak_with_inputs_bytes);
  }
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0].max_bytes_used, peaks["forward"]);
  EXPECT_EQ(found[1].max_bytes_used, peaks["backward"]);
  EXPECT_EQ(found[2].max_bytes_used, std::max(peaks["forward"], peaks["backward"]));
  EXPECT_NE(peaks["forward"], peaks["backward"]);
}

// One trial; a timing for each repetition, whichever phase asks first.
TEST(TrialBenchmarks, RepetitionsHaveSamplesOfTheirOwn) {
  TrialSession session;
  session.iterations = 3;
  TimedTrial trial(parse_case(kTimedCase), "gbench_probe", {1, 1}, session);
  const int before = probe_plans;
  EXPECT_EQ(text_of(trial.not_timed()), "");
  const int verified = probe_plans;
  EXPECT_GT(verified, before);
  const std::vector<std::int64_t> first = trial.timing(0)->rows[0].time.samples_ns;
  EXPECT_THAT(first, SizeIs(3));
  EXPECT_EQ(probe_plans, verified + 1);
  EXPECT_EQ(trial.timing(1)->rows[0].time.samples_ns.size(), 3u);
  EXPECT_EQ(probe_plans, verified + 2);
  EXPECT_EQ(trial.timing(0)->rows[0].time.samples_ns, first);
  EXPECT_EQ(trial.timing(0) + 1, trial.timing(1)) << "one record for two repetitions";
  EXPECT_EQ(text_of(trial.not_timed()), "");
  EXPECT_EQ(probe_plans, verified + 2);
}

TEST(TrialBenchmarks, AreErrorsIfTheTrialFails) {
  TrialRuns runs;
  const int before = probe_plans;
  const Runs found = run_benchmarks("gbench_probe:wrong_from=1", "tp1cp1", runs);
  ASSERT_THAT(found, SizeIs(3));
  for (const CollectedRun& collected : found) {
    EXPECT_TRUE(collected.run.error_occurred);
    EXPECT_THAT(collected.run.error_message, HasSubstr("loss"));
  }
  // One of the trial, and one of another microbatch in flight beside it.
  EXPECT_EQ(probe_plans, before + 2) << "timed all the same, or verified twice";
  EXPECT_EQ(runs.session.code, ExitCode::correctness);
}

TEST(TrialBenchmarks, AreErrorsIfTimedOutputsAreWrong) {
  TrialRuns runs;
  const Runs found = run_benchmarks("gbench_probe:wrong_from=4", "tp1cp2", runs);
  ASSERT_THAT(found, SizeIs(3));
  for (const CollectedRun& collected : found) {
    EXPECT_THAT(collected.run.error_message,
                HasSubstr("outputs of the last timed iteration: loss"));
  }
  EXPECT_EQ(runs.session.code, ExitCode::correctness);
}

TEST(TrialBenchmarks, AreErrorsIfTheyThrowWhileTimed) {
  TrialRuns runs;
  const Runs found = run_benchmarks("gbench_probe:throw_from=4", "tp2cp1", runs);
  ASSERT_THAT(found, SizeIs(3));
  for (const CollectedRun& collected : found)
    EXPECT_THAT(collected.run.error_message, HasSubstr("probe fails"));
  EXPECT_EQ(runs.session.code, ExitCode::rank_crashed);
}

TEST(TrialBenchmarks, AreSkippedWithTheReasonIfTheyCannotRun) {
  TrialRuns runs;
  Runs found = run_benchmarks("linear_ce", "tp1cp1", runs);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_THAT(found[0].run.error_message, HasSubstr("skipped: "));
  EXPECT_THAT(runs.skipped, SizeIs(3));
  found = run_benchmarks("fused", "tp1cp1dp2", runs);  // verified, but not timed
  EXPECT_THAT(found[0].run.error_message, HasSubstr("skipped: only one dp rank"));
  EXPECT_THAT(runs.skipped, SizeIs(6));
  EXPECT_EQ(runs.session.code, ExitCode::ok);
}

}  // namespace
}  // namespace lossgrid
