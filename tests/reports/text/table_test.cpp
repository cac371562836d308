// SPDX-License-Identifier: Apache-2.0
#include "reports/text/table.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/record/unjudged.h"
#include "reports/text/text_table.h"
#include "sample_run.h"
#include "text_parts.h"

namespace lossgrid {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string line_with(const std::string& text, const std::string& part) {
  for (const std::string& line : lines_of(text)) {
    if (line.find(part) != std::string::npos) return line;
  }
  ADD_FAILURE() << "no line with '" << part << "' in\n" << text;
  return "";
}

TEST(TrialsTable, FoldsGridsAndShowsTheWorst) {
  RunRecord run = sample_run();
  run.trials = {sample_trial(1, 1, "fused"), sample_trial(2, 1, "per_sequence"),
                sample_trial(2, 2, "fused"), sample_failure(), sample_skip(1)};
  const std::string text = format_trials_table(run);
  EXPECT_THAT(words_of(line_with(text, "  fused")),
              testing::ElementsAre("fused", "3", "grids", "2", "1", "0", "3", "0.25", "-", "1e+04",
                                   "0.062", "-", "tp2cp4", "4.0", "KiB", "4", "268", "B"));
  EXPECT_THAT(words_of(line_with(text, "per_sequence")),
              testing::ElementsAre("per_sequence", "tp2cp1", "1", "0", "0", "0.12", "0.25", "-",
                                   "0.5", "0.062", "-", "tp2cp1", "4.0", "KiB", "4", "184", "B"));
  EXPECT_THAT(words_of(line_with(text, "cp_local")),
              testing::ElementsAre("cp_local", "tp1cp1", "0", "0", "1", "-", "-", "-", "-", "-",
                                   "-", "-", "-", "-", "-"));
}

TEST(TrialsTable, GridsOfOneDpRankLeaveItOut) {
  RunRecord run = sample_run();
  run.trials = {sample_trial(2, 2, "fused"), sample_trial(2, 2, "fused", 2),
                sample_trial(1, 1, "per_sequence", 4)};
  run.trials[1].checks[2].ratio = 0.75;
  const std::string folded = format_trials_table(run);
  EXPECT_THAT(folded, HasSubstr("the worst over the grids tp2cp2 tp2cp2dp2 tp1cp1dp4.\n"));
  EXPECT_THAT(line_with(folded, "  fused"), AllOf(HasSubstr("2 grids"), HasSubstr(" tp2cp2dp2 ")));
  EXPECT_EQ(words_of(line_with(folded, "per_sequence"))[1], "tp1cp1dp4");

  const std::string rows = format_trials_table(run, TableRows::one_per_grid);
  EXPECT_THAT(words_of(line_with(rows, " tp2cp2  ")), testing::Contains("0.5"));
  EXPECT_THAT(words_of(line_with(rows, " tp2cp2dp2  ")), testing::Contains("0.75"));
}

TEST(TrialsTable, GridsMarkWhereHiddenStatesAreSplit) {
  RunRecord run = sample_run();
  run.trials = {sample_linear_trial(1, 1e-7, 0.5), sample_linear_trial(1, 1e-7, 0.25)};
  run.trials[1].sp = false;
  run.trials[1].dp = 2;
  run.trials[1].pp = 3;
  const std::string text = format_trials_table(run);
  EXPECT_THAT(text, HasSubstr("the worst over the grids tp2cp1sp tp2cp1dp2pp3.\n"));
  EXPECT_THAT(line_with(text, "  linear_ce"), AllOf(HasSubstr("2 grids"), HasSubstr(" tp2cp1sp ")));
}

TEST(ChunkTable, ShowsTheErrorByChunks) {
  RunRecord run = sample_run();
  run.trials = {sample_linear_trial(16, 3e-7, 0.75), sample_linear_trial(1, 1e-7, 0.5),
                sample_linear_trial(4, 2e-7, 0.25), sample_trial(1, 1, "fused")};
  const std::string text = format_chunk_table(run);
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 8u) << text;
  EXPECT_EQ(lines[3], "C0: vocab=96 hidden=8");
  EXPECT_THAT(words_of(lines[4]),
              testing::ElementsAre("1", "linear_ce:chunk_tokens=64", "1e-07", "0.5"));
  EXPECT_THAT(words_of(lines[5]),
              testing::ElementsAre("4", "linear_ce:chunk_tokens=16", "2e-07", "0.25"));
  EXPECT_THAT(words_of(lines[6]),
              testing::ElementsAre("16", "linear_ce:chunk_tokens=4", "3e-07", "0.75"));
}

TEST(ChunkTable, FoldsGridsToTheWorstAndKeepsImplementationsApart) {
  RunRecord run = sample_run();
  run.trials = {sample_linear_trial(1, 1e-7, 0.5), sample_linear_trial(4, 2e-7, 0.25),
                sample_linear_trial(16, 3e-7, 0.75), sample_linear_trial(4, 5e-7, 0.125),
                sample_linear_trial(4, 1e-7, 0.0625)};
  run.trials[3].sp = false;
  run.trials[3].chunks = 2;
  EXPECT_THAT(words_of(line_with(format_chunk_table(run), "chunk_tokens=16")),
              testing::ElementsAre("4", "linear_ce:chunk_tokens=16", "5e-07", "0.25"));
  // Another implementation and another case have too few numbers of chunks of their own.
  for (TrialRecord& trial : run.trials.in_memory()) {
    if (trial.chunks == 16) trial.implementation = "linear_ce_onepass:chunk_tokens=4";
  }
  EXPECT_EQ(format_chunk_table(run), "");
  run.trials[2] = sample_linear_trial(16, 3e-7, 0.75);
  EXPECT_NE(format_chunk_table(run), "");
  run.trials[2].case_name = "C1";
  EXPECT_EQ(format_chunk_table(run), "");
}

TEST(ChunkTable, NeedsThreeNumbersOfChunks) {
  RunRecord run = sample_run();
  run.trials = {sample_linear_trial(1, 1e-7, 0.5), sample_linear_trial(4, 2e-7, 0.25)};
  EXPECT_EQ(format_chunk_table(run), "");
  run.trials.push_back(sample_linear_trial(4, 2e-7, 0.25));
  EXPECT_EQ(format_chunk_table(run), "");
  run.trials.push_back(sample_linear_trial(0, 2e-7, 0.25));  // logits are given
  EXPECT_EQ(format_chunk_table(run), "");
}

TEST(MemoryTable, StandsBesideTheBaseline) {
  RunRecord run = sample_run();
  run.trials = {sample_linear_trial(4, 1e-7, 0.5), sample_linear_trial(1, 1e-7, 0.5)};
  EXPECT_EQ(format_memory_table(run), "") << "there is no baseline";
  run.trials[1].implementation = "linear_materialized";
  for (PhaseMemoryRecord& phase : run.trials[0].memory) {
    phase.measured_peak_bytes = 3 << 20;
    phase.predicted_peak_bytes = 2 << 20;
  }
  for (PhaseMemoryRecord& phase : run.trials[1].memory) {
    phase.measured_peak_bytes = 8 << 20;
    phase.predicted_peak_bytes = 8 << 20;
  }
  for (TrialRecord& trial : run.trials.in_memory()) {
    trial.memory.back().device_used_bytes.reset();
    trial.memory.back().device_other_bytes.reset();
  }
  const std::string text = format_memory_table(run);
  EXPECT_THAT(words_of(line_with(text, "chunk_tokens")),
              testing::ElementsAre("linear_ce:chunk_tokens=16", "tp2cp1sp", "3.0", "MiB", "2.0",
                                   "MiB", "0.375", "0.250"));
  EXPECT_THAT(line_with(text, "  linear_materialized"), testing::HasSubstr("1.000  "));
  EXPECT_EQ(text.find("driver"), std::string::npos);
  // Memory use by the driver has columns of its own: the most over phases.
  run.trials[0].memory[0].device_used_bytes = 7 << 20;
  run.trials[0].memory[0].device_other_bytes = 1 << 20;
  run.trials[0].memory[2].device_used_bytes = 5 << 20;
  run.trials[0].memory[2].device_other_bytes = 2 << 20;
  const std::string with_driver = format_memory_table(run);
  EXPECT_THAT(words_of(line_with(with_driver, "chunk_tokens")),
              testing::ElementsAre("linear_ce:chunk_tokens=16", "tp2cp1sp", "3.0", "MiB", "2.0",
                                   "MiB", "0.375", "0.250", "7.0", "MiB", "2.0", "MiB"));
  EXPECT_THAT(words_of(line_with(with_driver, "  linear_materialized")),
              testing::Contains("-").Times(2));
  run.trials[1].sp = false;
  EXPECT_EQ(format_memory_table(run), "") << "the baseline ran on another grid";
}

TEST(TrialsTable, RowStatisticsShowWithTheirColumns) {
  RunRecord run = sample_run();
  run.trials = {sample_trial(1, 1, "fused"), sample_trial(1, 1, "per_sequence")};
  std::vector<CheckRecord>& checks = run.trials[0].checks;
  checks = {{"entropy", true, 0.375, 1, 1, std::nullopt, 1, 0},
            {"metric.entropy", true, 0.5, 1, 1, std::nullopt, 1, 0},
            {"metric.ratio_bias", true, 0.625, 1, 1, std::nullopt, 1, 0},
            {"vocab_min", true, 0.75, 1, 1, std::nullopt, 1, 0},
            {"vocab_max", true, 0.125, 1, 1, std::nullopt, 1, 0}};
  const auto ratios = [&] {
    const std::vector<std::string> words = words_of(line_with(format_trials_table(run), "  fused"));
    return std::vector<std::string>(words.begin() + 5, words.begin() + 11);
  };
  EXPECT_THAT(ratios(), testing::ElementsAre("-", "-", "0.38", "-", "-", "0.75"));
  checks[4].ratio = 0.875;
  EXPECT_THAT(ratios(), testing::ElementsAre("-", "-", "0.38", "-", "-", "0.88"));
  checks.resize(3);
  EXPECT_THAT(ratios(), testing::ElementsAre("-", "-", "0.38", "-", "-", "0.62"));
  EXPECT_THAT(line_with(format_trials_table(run), "implementation"),
              testing::ContainsRegex("loss +logprobs +entropy +grad +bias +metrics +worst at"));
}

TEST(TrialsTable, GroupsByCase) {
  RunRecord run = sample_run();
  TrialRecord other = sample_trial(1, 1, "fused");
  other.case_name = "C1";
  other.id = "vocab=7|tp1cp1|fused|cpu";
  run.trials = {sample_trial(1, 1, "fused"), other, sample_trial(1, 1, "per_sequence")};
  const std::string text = format_trials_table(run);
  const auto at = [&](const std::string& part) { return text.find(part); };
  EXPECT_LT(at("C0: vocab=96 lens=5+8\n"), at("per_sequence"));
  EXPECT_LT(at("per_sequence"), at("C1: vocab=7\n"));
}

TEST(TrialsTable, NotANumberIsInfinite) {
  RunRecord run = sample_run();
  run.trials = {sample_nan()};
  EXPECT_THAT(line_with(format_trials_table(run), "  fused"), HasSubstr("  inf  "));
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& line : lines_of(text)) {
    longest = std::max(longest, line.size());
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
  }
  return longest;
}

TEST(TrialsTable, FitsAScreen) {
  RunRecord run = sample_run();
  TrialRecord& wide = run.trials.emplace_back(sample_failure());
  wide.id = "mask=" + std::string(400, '1') + "|tp2cp4dp2|x|cpu";
  wide.dp = 2;
  wide.implementation = "fused:chunk=128";
  wide.checks.push_back({"entropy", false, 1500, 1, 1, std::nullopt, 1, 1});
  wide.checks.push_back({"metric.loss", false, 1500, 1, 1, std::nullopt, 1, 1});
  wide.memory[0].measured_peak_bytes = 123LL << 20;
  wide.communication[0].measured_payload_bytes = 999LL << 20;
  EXPECT_LE(longest_line(format_trials_table(run)), 134u) << format_trials_table(run);

  wide.implementation = "linear_ce:chunk_rows=4096";
  wide.checks.back().ratio = 1.5e300;
  wide.memory[0].measured_peak_bytes = 1023LL << 30;
  wide.communication[0].measured_calls = 123456;
  wide.communication[0].measured_payload_bytes = 1023LL << 30;
  EXPECT_LE(longest_line(format_trials_table(run)), 150u);
}

TEST(TrialsTable, ManyGridsTakeSeveralLines) {
  RunRecord run;
  for (int tp = 1; tp <= 8; tp *= 2) {
    for (int cp = 1; cp <= 8; cp *= 2) {
      for (int dp = 1; dp <= 4; dp *= 2) run.trials.push_back(sample_trial(tp, cp, "fused", dp));
    }
  }
  const std::string text = format_trials_table(run);
  EXPECT_LE(longest_line(text), 130u) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("\nthe worst over the grids tp1cp1 tp1cp1dp2 tp1cp1dp4 "),
                          HasSubstr(" tp8cp8 tp8cp8dp2 tp8cp8dp4.\n  implementation")));
}

TEST(TrialsTable, IsEmptyIfNothingRan) {
  EXPECT_EQ(format_trials_table(RunRecord()), "");
  EXPECT_EQ(format_summary(RunRecord()), "0 passed\n");
}

TEST(Summary, ShowsWhatDidNotPass) {
  const std::string text = format_summary(sample_run());
  EXPECT_EQ(lines_of(text)[0], "1 passed, 2 failed, 2 skipped");
  EXPECT_THAT(text, HasSubstr("failed: vocab=96 lens=5+8|tp2cp4|fused|cpu\n"));
  EXPECT_THAT(text, HasSubstr("reason: grad_logits: ratio 1.2e+04\n"
                              "  explanation: grad_logits is 2.000 x the truth, which tp = 2 "
                              "would explain\n"));
  EXPECT_THAT(text, HasSubstr("worst check: grad_logits, ratio 1.23e+04, 3 of 672 elements"));
  EXPECT_THAT(text, HasSubstr("worst element: rank 2, sequence 1, token 17, vocab id 94: "
                              "got -0.25, want -0.125\n"));
  EXPECT_THAT(text, HasSubstr("reproduce: lossgrid run --impl fused --grid tp2cp4 --case "
                              "\"vocab=96 lens=5+8\"\n"));
  EXPECT_THAT(text, HasSubstr("worst element: rank 0, sequence 0, token 2: got nan, want -6.25"));
  EXPECT_THAT(text, Not(HasSubstr("tp1cp1|fused"))) << "a passing trial is listed";
}

TEST(Summary, ShowsTimeByStage) {
  RunRecord run = sample_run();
  run.wall_ns = 2'000'000'000;
  run.stages = {{500'000'000, 10'000'000, 1'000'000'000, 90'000'000, 30'000'000, 0}};
  EXPECT_THAT(format_summary(run),
              HasSubstr("time: 2.00 s (generate 0.50, truth 0.01, run 1.00, "
                        "compare 0.09, bits 0.03, report 0.00, other 0.37)\n"));
  run.wall_ns = 0;  // not known
  EXPECT_THAT(format_summary(run), Not(HasSubstr("time:")));
}

TEST(Summary, FoldsSkipsByReason) {
  RunRecord run = sample_run();
  run.trials.push_back(sample_skip(4));
  run.trials.back().reason = "needs 2 GiB";
  TrialRecord never = sample_skip(4);
  never.status = TrialStatus::not_run;
  never.reason = "";
  run.trials.push_back(never);
  const std::string text = format_summary(run);
  EXPECT_THAT(text, AllOf(HasSubstr("skipped 2: cp_local needs cp > 1 (cp_local)\n"),
                          HasSubstr("skipped 1: needs 2 GiB (cp_local)\n"),
                          HasSubstr("not run 1: no reason given (cp_local)\n")));
}

TEST(Summary, NamesOutputsThatWereNotCompared) {
  RunRecord run;
  for (const char* name : {"judged", "value_alone", "not_at_all", "skipped_alone"}) {
    for (int k = 0; k < 2; ++k) {
      run.trials.push_back(sample_trial(1, 1, name));
      run.trials.back().unjudged = {{"entropy", kNotChecked}};
    }
  }
  run.trials[1].unjudged.clear();  // one trial decides for all of its implementation
  run.trials[2].unjudged["entropy"] = kValueAlone;
  run.trials[6].status = run.trials[7].status = TrialStatus::skipped;
  EXPECT_THAT(format_summary(run),
              HasSubstr("\nvalue_alone: entropy: value checked, gradient not\n"
                        "not_at_all: entropy: neither value nor gradient checked\n"));
  EXPECT_THAT(format_summary(run), Not(HasSubstr("judged: entropy: n")));
  run.trials[1].status = TrialStatus::error;  // it did not come to its checks
  EXPECT_THAT(format_summary(run),
              HasSubstr("\njudged: entropy: neither value nor gradient checked\n"));
}

TEST(Summary, NamesTheRankThatFailedFirst) {
  RunRecord run;
  run.trials = {sample_trial(2, 2, "fused")};
  run.trials[0].status = TrialStatus::error;
  run.trials[0].reason = "rank 3: out of luck\nsecond line";
  run.trials[0].first_failed_rank = 3;
  const std::string text = format_summary(run);
  EXPECT_THAT(text, HasSubstr("error: vocab=96"));
  EXPECT_THAT(text, HasSubstr("first failed rank: 3"));
  EXPECT_THAT(text, HasSubstr("out of luck second line\n"));
  EXPECT_THAT(text, Not(HasSubstr("worst check")));
}

TEST(Summary, CountsAndDescribesTrialsThatARankEnded) {
  RunRecord run;
  for (const TrialStatus status : {TrialStatus::crashed, TrialStatus::out_of_memory}) {
    run.trials.push_back(sample_cut_short(status));
  }
  const std::string text = format_summary(run);
  EXPECT_THAT(text, AllOf(HasSubstr("0 passed, 1 crashed, 1 out of memory\n"),
                          HasSubstr("\ncrashed: vocab=96"), HasSubstr("\nout_of_memory: vocab=96"),
                          HasSubstr("reason: rank 1: it ended\n")));
  EXPECT_THAT(text, HasSubstr("  ranks and their last collectives:\n"
                              "    rank 0 waiting in forward: all_reduce sum of 8 f32, call #5 of "
                              "'tp', entered\n"
                              "    rank 1 silent\n"));
  const std::vector<std::string> row = words_of(line_with(format_trials_table(run), "2 grids"));
  ASSERT_GT(row.size(), 6u);
  EXPECT_THAT(std::vector(row.begin() + 3, row.begin() + 6), testing::ElementsAre("0", "2", "0"));
}

TEST(Summary, NamesSixteenRanksAndCountsTheRest) {
  RunRecord run;
  run.trials = {sample_cut_short(TrialStatus::timeout)};
  std::vector<RankRecord>& ranks = run.trials[0].ranks;
  ranks.resize(16, ranks[1]);
  EXPECT_THAT(format_summary(run), Not(HasSubstr("more ranks")));
  ranks.resize(20, ranks[1]);
  const std::string text = format_summary(run);
  EXPECT_THAT(text, HasSubstr("    rank 1 silent\n    and 4 more ranks\n"));
}

TEST(MutantsTable, ScoresAndNames) {
  const std::string text = format_mutants_table(sample_mutants_run());
  EXPECT_THAT(line_with(text, "mutant_0"),
              AllOf(HasSubstr("M4"), HasSubstr("rejected"), HasSubstr("multiplied by cp")));
  EXPECT_THAT(text, HasSubstr("by C3, tp1cp2: grad_logits, grad_logits_bias\n"));
  EXPECT_THAT(line_with(text, "reversed_sum"), HasSubstr("accepted"));
  EXPECT_THAT(text, HasSubstr("\n3 of 3 mutants rejected (100 %)\n1 of 1 controls accepted\n"));
  EXPECT_THAT(text, Not(HasSubstr("reproduce")));
}

TEST(MutantsTable, SurvivorsStandOut) {
  RunRecord run = sample_mutants_run();
  run.mutants[0].rejected = false;
  run.mutants[1].rejected = false;
  run.mutants[1].trials = 0;
  run.mutants[1].reason = "nothing to change in nll";
  run.mutants[2].rejected = false;
  run.mutants[2].not_counted = 1;
  run.mutants[2].reason = "C3, tp1cp2: 'fused' does not pass it, either: loss";
  run.mutants[3].rejected = true;
  run.mutants[3].rejected_by_checks = {"loss"};
  run.mutants[3].reproduce = "lossgrid run --impl reversed_sum";
  const std::string text = format_mutants_table(run);
  EXPECT_THAT(line_with(text, "mutant_0"), HasSubstr("SURVIVED"));
  EXPECT_THAT(text, HasSubstr("passed 4 trials"));
  EXPECT_THAT(line_with(text, "mutant_1"), HasSubstr("did not run"));
  EXPECT_THAT(text, HasSubstr("nothing applies: nothing to change in nll\n"));
  EXPECT_THAT(line_with(text, "mutant_2"), HasSubstr("SURVIVED"));
  EXPECT_THAT(text, HasSubstr("passed 3 trials\n"));
  EXPECT_THAT(text, HasSubstr("failed 1, which does not count:\n"));
  EXPECT_THAT(text, HasSubstr("C3, tp1cp2: 'fused' does not pass it, either: loss\n"));
  EXPECT_THAT(line_with(text, "reversed_sum"), HasSubstr("WRONGLY REJECTED"));
  EXPECT_THAT(text, HasSubstr("reproduce: lossgrid run --impl reversed_sum"));
  EXPECT_THAT(text,
              HasSubstr("\n0 of 2 mutants rejected (0 %)\n0 of 1 controls accepted\n1 did not "
                        "run: nothing in "));
}

TEST(MutantsTable, OneThatDidNotRunIsNoSurvivor) {
  RunRecord run = sample_mutants_run();
  run.suite = "smoke";
  run.mutants.resize(1);
  run.mutants[0].rejected = false;
  run.mutants[0].trials = 0;
  TextStyle coloured;
  coloured.has_colours = true;
  const std::string text = format_mutants_table(run, coloured);
  EXPECT_THAT(text, Not(HasSubstr("SURVIVED")));
  EXPECT_THAT(text, Not(HasSubstr("mutants rejected")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b[31m")));
  EXPECT_THAT(text, HasSubstr("\n1 did not run: nothing in smoke applies to it\n"));
}

TEST(MutantsTable, CasesThatAFunctionFailsItselfComeFirst) {
  RunRecord run = sample_mutants_run();
  run.mutants[3].name = "mine/unchanged";
  run.mutants[3].left_out = {"lens=5 vocab=24", "lens=8 vocab=24"};
  EXPECT_TRUE(format_mutants_table(run).starts_with(
      "mine fails 2 cases of the suite unchanged; they are left out:\n"
      "  lens=5 vocab=24\n  lens=8 vocab=24\n\n"));
}

TEST(MutantsTable, ShowsAHundredPercentForAllOfThemAlone) {
  RunRecord run;
  run.command = "mutants";
  EXPECT_EQ(format_mutants_table(run), "0 of 0 mutants rejected (0 %)\n");
  run.mutants.assign(2001, sample_mutants_run().mutants[0]);
  run.mutants[7].rejected = false;
  EXPECT_THAT(format_mutants_table(run), HasSubstr("2000 of 2001 mutants rejected (99.9 %)\n"));
}

/// Columns of a terminal of the usual width.
TEST(Tables, FitEightyColumns) {
  RunRecord run = sample_run();
  run.trials = {sample_trial(1, 1, "fused"), sample_trial(2, 1, "per_sequence"), sample_failure()};
  for (const RunRecord& record : {run, sample_bench_run()}) {
    const TextStyle style{80, false};
    std::string text = format_trials_table(record, TableRows::grids_folded, style) +
                       format_memory_table(record, style) + format_chunk_table(record, style) +
                       format_mutants_table(record, style) +
                       format_timing_table(record.timings, style);
    for (const std::string& line : lines_of(text)) {
      if (line.find("reproduce: ") != std::string::npos) continue;
      EXPECT_LE(line.size(), 80u) << line;
    }
    EXPECT_THAT(text, HasSubstr("columns left out: "));
  }
}

}  // namespace
}  // namespace lossgrid
