// SPDX-License-Identifier: Apache-2.0
#include "reports/change/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample_run.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kMargin = 0.1;

RunRecord run_of(std::vector<TrialRecord> trials) {
  RunRecord run;
  run.trials = std::move(trials);
  return run;
}

Comparison compared(const TrialRecord& base, const TrialRecord& head) {
  return compare_reports(run_of({base}), run_of({head}), kMargin);
}

TEST(Compare, FindsNothingBetweenAReportAndItself) {
  for (const RunRecord& run : {sample_run(), sample_bench_run()}) {
    const Comparison comparison = compare_reports(run, run, kMargin);
    EXPECT_THAT(comparison.findings, IsEmpty());
    EXPECT_GT(comparison.trials + comparison.rows, 0);
    EXPECT_EQ(exit_code_of(comparison, true), ExitCode::ok);
  }
}

TEST(Compare, AVerdictThatIsLostIsTheWorst) {
  const TrialRecord passed = sample_trial(2, 1, "fused");
  for (const auto& [status, code] : std::vector<std::pair<TrialStatus, ExitCode>>{
           {TrialStatus::failed, ExitCode::correctness},
           {TrialStatus::error, ExitCode::rank_crashed},
           {TrialStatus::crashed, ExitCode::rank_crashed},
           {TrialStatus::out_of_memory, ExitCode::rank_crashed},
           {TrialStatus::timeout, ExitCode::hang},
           {TrialStatus::skipped, ExitCode::correctness},
           {TrialStatus::not_run, ExitCode::correctness}}) {
    TrialRecord head = passed;
    head.status = status;
    head.reason = "a reason";
    const Comparison comparison = compared(passed, head);
    ASSERT_THAT(comparison.findings, SizeIs(1)) << name(status);
    EXPECT_EQ(comparison.findings[0].verdict, Verdict::failed);
    EXPECT_EQ(exit_code_of(comparison, false), code) << name(status);
    if (is_bad(status)) {
      const Comparison back = compared(head, passed);
      EXPECT_EQ(back.findings.at(0).verdict, Verdict::improved) << name(status);
      EXPECT_EQ(exit_code_of(back, true), ExitCode::ok);
    }
  }
}

/// A collective more than the implementation predicts: the trial fails, its numbers are right.
TEST(Compare, CostsThatAreNotAsPredictedAreNoWrongResults) {
  const TrialRecord passed = sample_trial(2, 1, "fused");
  TrialRecord head = passed;
  head.status = TrialStatus::failed;
  head.cost_mismatches = {"communication"};
  EXPECT_EQ(exit_code_of(compared(passed, head), false), ExitCode::cost_regression);
  head.checks.at(0).passed = false;
  EXPECT_EQ(exit_code_of(compared(passed, head), false), ExitCode::correctness);
}

TEST(Compare, LostCoverageFailsAndNewTrialsAreNamed) {
  const TrialRecord kept = sample_trial(1, 1, "fused");
  const TrialRecord other = sample_trial(2, 1, "fused");
  const Comparison lost = compare_reports(run_of({kept, other}), run_of({kept}), kMargin);
  ASSERT_THAT(lost.findings, SizeIs(1));
  EXPECT_EQ(lost.findings[0].kind, ChangeKind::coverage);
  EXPECT_EQ(lost.findings[0].id, other.id);
  EXPECT_EQ(exit_code_of(lost, false), ExitCode::correctness);

  const Comparison added = compare_reports(run_of({kept}), run_of({kept, other}), kMargin);
  ASSERT_THAT(added.findings, SizeIs(1));
  EXPECT_EQ(added.findings[0].verdict, Verdict::added);
  EXPECT_EQ(exit_code_of(added, true), ExitCode::ok);
  TrialRecord wrong = other;
  wrong.status = TrialStatus::failed;
  EXPECT_EQ(exit_code_of(compare_reports(run_of({kept}), run_of({kept, wrong}), kMargin), false),
            ExitCode::correctness);
}

TEST(Compare, SkippedTrialsAreNoCoverage) {
  TrialRecord skipped = sample_trial(1, 1, "fused");
  skipped.status = TrialStatus::skipped;
  const TrialRecord kept = sample_trial(2, 1, "fused");
  EXPECT_THAT(compare_reports(run_of({kept, skipped}), run_of({kept}), kMargin).findings,
              IsEmpty());
}

TEST(Compare, ANewSkipIsShownWithItsReason) {
  const TrialRecord kept = sample_trial(2, 1, "fused");
  const TrialRecord passed = sample_trial(1, 1, "fused");
  TrialRecord skipped = passed;
  skipped.status = TrialStatus::skipped;
  skipped.reason = "comes too early";
  const Comparison lost = compare_reports(run_of({kept, passed}), run_of({kept, skipped}), kMargin);
  ASSERT_THAT(lost.findings, SizeIs(1));
  EXPECT_EQ(lost.findings[0].kind, ChangeKind::coverage);
  EXPECT_EQ(lost.findings[0].head, "skipped: comes too early");
  EXPECT_EQ(exit_code_of(lost, false), ExitCode::correctness);

  const Comparison added = compare_reports(run_of({kept}), run_of({kept, skipped}), kMargin);
  ASSERT_THAT(added.findings, SizeIs(1));
  EXPECT_EQ(added.findings[0].verdict, Verdict::added);
  EXPECT_EQ(added.findings[0].head, "skipped: comes too early");
  EXPECT_EQ(exit_code_of(added, true), ExitCode::ok);
  EXPECT_THAT(compare_reports(run_of({kept, skipped}), run_of({kept, skipped}), kMargin).findings,
              IsEmpty());
}

TEST(Compare, NothingInCommonIsRefused) {
  EXPECT_THROW(compared(sample_trial(1, 1, "fused"), sample_trial(2, 1, "fused")), Error);
  EXPECT_THROW(compare_reports({}, {}, kMargin), Error);
}

TEST(Compare, CountersAreExact) {
  const TrialRecord base = sample_trial(2, 1, "fused");
  TrialRecord head = base;
  head.memory[1].measured_peak_bytes += 1;
  head.communication[0].measured_calls -= 1;
  const Comparison comparison = compared(base, head);
  ASSERT_THAT(comparison.findings, SizeIs(2));
  EXPECT_EQ(quantity(comparison.findings[0]), "rank 0 forward: peak bytes");
  EXPECT_EQ(comparison_to_json(comparison)["changes"][0]["base"], "1024");
  EXPECT_EQ(comparison_to_json(comparison)["changes"][0]["head"], "1025");
  EXPECT_EQ(comparison.findings[0].verdict, Verdict::failed);
  EXPECT_EQ(quantity(comparison.findings[1]), "forward tp: all_reduce calls");
  EXPECT_EQ(comparison.findings[1].verdict, Verdict::improved);
  EXPECT_EQ(exit_code_of(comparison, false), ExitCode::cost_regression);
  EXPECT_EQ(exit_code_of(compared(head, head), false), ExitCode::ok);

  TrialRecord more = base;
  more.communication.push_back({0, "backward", "cp", "all_gather", 1, 1, 64, 64});
  EXPECT_EQ(exit_code_of(compared(base, more), false), ExitCode::cost_regression);
  more = base;
  more.memory[0].measured_allocations += 1;
  EXPECT_EQ(exit_code_of(compared(base, more), false), ExitCode::cost_regression);
}

TEST(Compare, ACounterThatIsGoneIsNoImprovement) {
  const TrialRecord base = sample_trial(2, 1, "fused");
  TrialRecord head = base;
  head.communication.pop_back();
  EXPECT_THAT(compared(base, head).findings, IsEmpty());
  EXPECT_THAT(compared(head, base).findings, SizeIs(2));  // calls and payload
}

/// A run that died in the middle, as its reader returns the partial report.
TEST(Compare, ADeadHeadIsItsEndAndNoListOfWhatIsMissing) {
  const TrialRecord kept = sample_trial(1, 1, "fused");
  const TrialRecord other = sample_trial(2, 1, "fused");
  const TrialRecord third = sample_trial(2, 2, "fused");
  RunRecord head = run_of({kept});
  head.status = "partial";
  head.begun_id = other.id;
  const Comparison killed = compare_reports(run_of({kept, other, third}), head, kMargin);
  EXPECT_THAT(killed.findings, IsEmpty());
  EXPECT_EQ(killed.dead_head, "HEAD did not come to its end, dead in the middle of " + other.id +
                                  ": 2 trials and 0 timed rows of BASE were not reached");
  EXPECT_EQ(exit_code_of(killed, false), ExitCode::rank_crashed);
  EXPECT_THAT(format_comparison(killed), HasSubstr(killed.dead_head + "\n"));
  EXPECT_EQ(comparison_to_json(killed)["dead_head"], killed.dead_head);

  // A hang leaves a whole report: the trials behind it did not run.
  head = run_of({kept, other, third});
  head.status = "partial";
  head.trials[1].status = TrialStatus::timeout;
  head.trials[2].status = TrialStatus::not_run;
  const Comparison hung = compare_reports(run_of({kept, other, third}), head, kMargin);
  ASSERT_THAT(hung.findings, SizeIs(1));
  EXPECT_EQ(hung.findings[0].id, other.id);
  EXPECT_THAT(hung.dead_head, HasSubstr(", a rank hung in " + other.id + ": 1 trials"));
  EXPECT_EQ(exit_code_of(hung, false), ExitCode::hang);

  // It may have died before its first trial.
  RunRecord nothing;
  nothing.status = "partial";
  EXPECT_EQ(exit_code_of(compare_reports(run_of({kept}), nothing, kMargin), false),
            ExitCode::rank_crashed);
}

TEST(Compare, ADeadBaseIsANote) {
  RunRecord base = run_of({sample_trial(1, 1, "fused")});
  base.status = "partial";
  const Comparison comparison =
      compare_reports(base, run_of({sample_trial(1, 1, "fused")}), kMargin);
  ASSERT_THAT(comparison.notes, SizeIs(1));
  EXPECT_THAT(comparison.notes[0], HasSubstr("BASE did not come to its end"));
  EXPECT_EQ(exit_code_of(comparison, true), ExitCode::ok);
}

TEST(Compare, NotesOtherMachinesAndBuilds) {
  RunRecord base = run_of({sample_trial(1, 1, "fused")});
  base.environment = {{"tool", {{"compiler", "g++ 12"}, {"git_revision", "aaa"}}},
                      {"host", {{"cpu_model", "Alpha"}, {"cpus", 2}}}};
  RunRecord head = base;
  head.environment["tool"]["git_revision"] = "bbb";
  EXPECT_THAT(compare_reports(base, head, kMargin).notes, IsEmpty());
  head.environment["host"]["cpu_model"] = "Beta";
  head.environment["host"]["cpus"] = 64;
  head.environment["gpus"] = {"a GPU"};
  head.environment["tool"]["compiler"] = "g++ 13";
  const Comparison comparison = compare_reports(base, head, kMargin);
  EXPECT_THAT(
      comparison.notes,
      testing::ElementsAre("the machines differ: CPU model (Alpha in BASE, Beta in HEAD), CPUs (2 "
                           "in BASE, 64 in HEAD), GPUs (none in BASE, [\"a GPU\"] in HEAD)",
                           "the builds differ: compiler (g++ 12 in BASE, g++ 13 in HEAD)"));
  EXPECT_EQ(exit_code_of(comparison, true), ExitCode::ok);
  EXPECT_THAT(format_comparison(comparison), HasSubstr("note: the machines differ: CPU model"));
  EXPECT_THAT(comparison_markdown(comparison), HasSubstr("\n- the builds differ: "));
  EXPECT_EQ(comparison_to_json(comparison)["notes"].size(), 2u);
}

TEST(Compare, TrialsThatFailInBothAreANote) {
  TrialRecord failed = sample_trial(1, 1, "fused");
  failed.status = TrialStatus::failed;
  TrialRecord crashed = failed;
  crashed.status = TrialStatus::crashed;
  const Comparison comparison = compared(failed, crashed);
  EXPECT_THAT(comparison.findings, IsEmpty());
  EXPECT_THAT(
      comparison.notes,
      testing::ElementsAre("1 trial fails in both reports, which is no change: " + failed.id));
}

/// Returns a timing of two implementations; `cost` is the time of the second over the first.
RunRecord timed(double cost, double stderr_ratio) {
  TimingRecord timing;
  timing.case_text = "lens=5";
  timing.grid = "tp1cp1";
  timing.cache = "hot";
  timing.baseline = "per_sequence";
  TimingRow base;
  base.implementation = "per_sequence";
  base.phase = "forward";
  base.speedup = 1;
  base.time.stderr_ratio = 0;
  TimingRow fast = base;
  fast.implementation = "fused";
  fast.speedup = 1 / cost;
  fast.time.stderr_ratio = stderr_ratio;
  timing.rows = {base, fast};
  RunRecord run;
  run.timings = {timing};
  return run;
}

TEST(Compare, TimesAreJudgedByTheirIntervalAndTheMargin) {
  const auto verdict = [](double base, double head, double stderr_ratio) -> std::string {
    const Comparison comparison =
        compare_reports(timed(base, stderr_ratio), timed(head, stderr_ratio), kMargin);
    EXPECT_EQ(comparison.rows, 2);
    if (comparison.findings.empty()) return "ok";
    EXPECT_THAT(comparison.findings, SizeIs(1));
    return comparison_to_json(comparison)["changes"][0]["verdict"];
  };
  EXPECT_EQ(verdict(0.5, 0.5, 0.01), "ok");
  EXPECT_EQ(verdict(0.5, 0.53, 0.01), "ok");  // 6 % slower, +- 3 %
  EXPECT_EQ(verdict(0.5, 0.60, 0.01), "regressed");
  EXPECT_EQ(verdict(0.5, 0.56, 0.01), "inconclusive");  // 12 % slower, +- 3 %
  EXPECT_EQ(verdict(0.5, 0.60, 0.10), "inconclusive");
  EXPECT_EQ(verdict(0.5, 0.40, 0.01), "improved");
  // Between two and four standard errors (2.9 and 5.8 %) beyond the margin it is certain.
  EXPECT_EQ(verdict(0.5, 0.5 * 1.14, 0.01), "regressed");
  EXPECT_EQ(verdict(0.5, 0.5 * 1.125, 0.01), "inconclusive");  // less than two
  EXPECT_EQ(verdict(0.5, 0.5 / 1.14, 0.01), "improved");
  EXPECT_EQ(verdict(0.5, 0.5 / 1.125, 0.01), "ok");
}

TEST(Compare, ATimeExactlyOnTheMarginIsInconclusive) {
  const Comparison same = compare_reports(timed(0.5, 0), timed(0.5, 0), 0);
  ASSERT_THAT(same.findings, SizeIs(1));
  EXPECT_EQ(same.findings[0].verdict, Verdict::inconclusive);
}

TEST(Compare, OnlyStrictFailsAnInconclusiveTime) {
  const Comparison unclear = compare_reports(timed(0.5, 0.1), timed(0.6, 0.1), kMargin);
  EXPECT_EQ(exit_code_of(unclear, false), ExitCode::ok);
  EXPECT_EQ(exit_code_of(unclear, true), ExitCode::inconclusive);
  const Comparison slower = compare_reports(timed(0.5, 0.01), timed(0.6, 0.01), kMargin);
  EXPECT_EQ(exit_code_of(slower, false), ExitCode::time_regression);
  const nlohmann::ordered_json change = comparison_to_json(slower)["changes"][0];
  EXPECT_NEAR(change["ratio"].get<double>(), 1.2, 1e-12);
  EXPECT_NEAR(change["ratio_low"].get<double>(), 1.2 * std::exp(-2 * std::sqrt(2) * 0.01), 1e-9);
}

TEST(Compare, ARowThatIsNotTimedAnyMoreIsLost) {
  RunRecord fewer = timed(0.5, 0.01);
  fewer.timings[0].rows.pop_back();
  const Comparison comparison = compare_reports(timed(0.5, 0.01), fewer, kMargin);
  ASSERT_THAT(comparison.findings, SizeIs(1));
  EXPECT_EQ(comparison.findings[0].id, "lens=5|tp1cp1|hot|timing|fused|forward");
  EXPECT_EQ(exit_code_of(comparison, false), ExitCode::correctness);
  RunRecord wrong = timed(0.5, 0.01);
  wrong.timings[0].rows[1].status = TimingStatus::failed;
  EXPECT_THAT(compare_reports(timed(0.5, 0.01), wrong, kMargin).findings, SizeIs(1));
}

TEST(Compare, NotesTimesOfLittleWeight) {
  RunRecord base = timed(0.5, 0.01);
  RunRecord head = base;
  for (TimingRow& row : head.timings[0].rows) row.status = TimingStatus::unstable;
  base.timings[0].not_representative_reason = "2 ranks share 1 core";
  EXPECT_THAT(compare_reports(base, head, kMargin).notes,
              testing::ElementsAre("unstable in HEAD, too few samples to judge by: "
                                   "lens=5|tp1cp1|hot|timing|per_sequence|forward and 1 more",
                                   "not representative in BASE, 2 ranks share 1 core: "
                                   "lens=5|tp1cp1|hot|timing"));
}

TEST(Compare, NotesABatchThatIsPaddedOtherwise) {
  RunRecord head = timed(0.5, 0.01);
  head.timings[0].padding = "sequences to multiples of 16, for mine";
  EXPECT_THAT(compare_reports(head, head, kMargin).notes, IsEmpty());
  EXPECT_THAT(compare_reports(timed(0.5, 0.01), head, kMargin).notes,
              testing::ElementsAre("timed on a batch that is padded otherwise than in BASE: "
                                   "lens=5|tp1cp1|hot|timing"));
}

TEST(Compare, ATimingThatDiedIsOneChangeWithItsStatus) {
  RunRecord head = timed(0.5, 0.01);
  head.timings[0].rows.clear();
  head.timings[0].status = TimingStatus::out_of_memory;
  head.timings[0].reason = "rank 0: out of memory";
  const Comparison comparison = compare_reports(timed(0.5, 0.01), head, kMargin);
  ASSERT_THAT(comparison.findings, SizeIs(1));
  EXPECT_EQ(comparison.findings[0].head, "out_of_memory: rank 0: out of memory");
  EXPECT_EQ(exit_code_of(comparison, false), ExitCode::rank_crashed);
}

TEST(ComparisonText, FoldsWhatIsTheSameOnSeveralGrids) {
  RunRecord base = run_of({sample_trial(1, 1, "fused"), sample_trial(1, 2, "fused")});
  RunRecord head = base;
  for (TrialRecord& trial : head.trials.in_memory()) trial.memory[1].measured_peak_bytes = 2048;
  const Comparison comparison = compare_reports(base, head, kMargin);
  const std::string text = format_comparison(comparison);
  EXPECT_THAT(text,
              HasSubstr("regressed  memory  rank 0 forward: peak bytes  1024  2048  2.000x       "
                        "vocab=96 lens=5+8|tp1cp1|fused|cpu and 1 more\n"));
  EXPECT_THAT(text, HasSubstr("2 trials and 0 timed rows in both: 2 regressed, 0 inconclusive, 0 "
                              "improved, 0 added\n"));
  const std::string markdown = comparison_markdown(comparison);
  EXPECT_THAT(markdown,
              HasSubstr("| regressed | memory | rank 0 forward: peak bytes | 1024 | 2048 | "
                        "2.000x | vocab=96 lens=5+8\\|tp1cp1\\|fused\\|cpu and 1 more |\n"));
  const nlohmann::ordered_json json = comparison_to_json(comparison);
  EXPECT_EQ(json["counts"]["regressed"], 2);
  ASSERT_EQ(json["changes"].size(), 2u);
  EXPECT_EQ(json["changes"][0]["kind"], "memory");
  EXPECT_EQ(json["changes"][0]["ratio"], 2.0);
  EXPECT_EQ(json["changes"][0]["ratio_low"], nullptr);
}

}  // namespace
}  // namespace lossgrid
