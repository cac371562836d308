// SPDX-License-Identifier: Apache-2.0
// Timing records as JSON and as text: units in the keys, null for what does not exist, a row for
// every phase, and reasons wherever a number is missing.
#include "reports/record/timing_record.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/file/report_format.h"
#include "reports/file/report_json.h"
#include "reports/file/report_reader.h"
#include "reports/file/report_writer.h"
#include "sample_run.h"
#include "text_parts.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TimingRecord skipped_timing() {
  TimingRecord record = sample_timing();
  record.status = TimingStatus::skipped;
  record.reason = "only one dp rank with one microbatch is timed";
  record.grid = "tp1cp1dp2";
  record.stopped_by.clear();
  record.rows.clear();
  record.ceilings.clear();
  return record;
}

TEST(TimingJson, HasTheSameKeysWithAndWithoutSamples) {
  const Json json = timing_to_json(sample_timing());
  EXPECT_EQ(keys_of(timing_to_json(skipped_timing())), keys_of(json));
  ASSERT_EQ(json["rows"].size(), 4u);
  const Json& keys = report_format().schema["$defs"]["timing_row"]["required"];
  for (const Json& row : json["rows"]) EXPECT_EQ(Json(keys_of(row)), keys);
}

TEST(TimingJson, NamesTheBackendAndTimerOfAGpu) {
  TimingRecord record = sample_timing();
  EXPECT_EQ(record.id(), "lens=64 vocab=512|tp2cp1|hot|timing");
  record.backend = "cuda";
  record.timer = "cuda_events";
  EXPECT_EQ(record.id(), "lens=64 vocab=512|tp2cp1|hot|timing|cuda");
  const Json json = timing_to_json(record);
  EXPECT_EQ(json["backend"], "cuda");
  EXPECT_EQ(json["timer"], "cuda_events");
  EXPECT_EQ(json["rows"][0]["kernel_launches"], 7);
  EXPECT_EQ(json["rows"][0]["host_synchronisations"], 2);
  EXPECT_THAT(format_timing_table({record}),
              HasSubstr("(median known), backend cuda, cuda_events"));
}

TEST(TimingJson, HoldsWhatTheRecordHolds) {
  const Json json = timing_to_json(sample_timing());
  EXPECT_EQ(json["case"]["name"], "pack");
  EXPECT_EQ(json["case"]["text"], "lens=64 vocab=512");
  EXPECT_EQ(json["cache"], "hot");
  EXPECT_EQ(json["representative"], true);
  EXPECT_EQ(json["order_seed"], 1);
  EXPECT_EQ(json["target_stderr_ratio"], 0.01);
  EXPECT_EQ(json["stopped_by"], "target");
  EXPECT_EQ(json["skipped"][0]["implementation"], "linear_ce");
  EXPECT_EQ(json["all_reduce"][0]["latency_ns"], 2500);
  const Json& row = json["rows"][2];
  EXPECT_EQ(row["phase"], "forward_backward");
  EXPECT_EQ(row["samples_ns"].size(), 11u);
  EXPECT_EQ(row["samples_ns"][1], 3'999'000);  // in the order of the rounds, not sorted
  EXPECT_EQ(row["median_ns"], 4'000'000);
  EXPECT_EQ(row["speedup"], 1);
  EXPECT_EQ(row["rank_times"][1]["communication_ns"], 100'000);
  EXPECT_EQ(row["straggler"]["rank"], 1);
  EXPECT_EQ(row["straggler"]["excess_ns"], 300'000);
  EXPECT_EQ(json["ceilings"][1]["name"], "copy");
  EXPECT_EQ(json["ceilings"][1]["rate_per_second"], 1.5e10);
}

TEST(TimingJson, MissingValuesAreNull) {
  TimingRecord record = sample_timing();
  TimingRow& row = record.rows[0];
  row.speedup.reset();
  row.ceiling.clear();
  row.ceiling_ratio.reset();
  row.straggler.reset();
  row.rank_bytes = 0;
  row.bytes_per_second.reset();
  const Json json = timing_to_json(record)["rows"][0];
  for (const char* key : {"speedup", "ceiling", "ceiling_ratio", "straggler", "rank_bytes",
                          "rank_flops", "bytes_per_second", "flops_per_second"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  record.not_representative_reason = "4 ranks share 2 cores";
  EXPECT_EQ(timing_to_json(record)["representative"], false);
  EXPECT_EQ(timing_to_json(record)["representative_reason"], "4 ranks share 2 cores");
  const Json skipped = timing_to_json(skipped_timing());
  EXPECT_EQ(skipped["status"], "skipped");
  EXPECT_TRUE(skipped["stopped_by"].is_null());
}

TEST(TimingJson, StatusesHaveNamesAndTheWorstIsLast) {
  EXPECT_EQ(name(TimingStatus::timed), "timed");
  EXPECT_EQ(name(TimingStatus::skipped), "skipped");
  EXPECT_EQ(name(TimingStatus::unstable), "unstable");
  EXPECT_EQ(name(TimingStatus::above_ceiling), "above_ceiling");
  EXPECT_EQ(name(TimingStatus::failed), "failed");
  EXPECT_EQ(name(TimingStatus::error), "error");
  EXPECT_EQ(name(TimingStatus::timeout), "timeout");
  EXPECT_LT(TimingStatus::timed, TimingStatus::unstable);
  EXPECT_LT(TimingStatus::unstable, TimingStatus::above_ceiling);
  EXPECT_LT(TimingStatus::above_ceiling, TimingStatus::failed);
}

/// Returns the first words of a line; further numbers of rows stand behind them.
std::vector<std::string> first_words(const std::string& line) {
  std::vector<std::string> words = words_of(line);
  words.resize(std::min<std::size_t>(words.size(), 11));
  return words;
}

TEST(TimingTable, HasARowForEveryPhaseThenCeilingsAndTheStraggler) {
  const std::vector<std::string> lines = lines_of(format_timing_table({sample_timing()}));
  ASSERT_EQ(lines.size(), 13u);
  EXPECT_EQ(lines[0], "pack: lens=64 vocab=512");
  EXPECT_EQ(
      lines[1],
      "  on tp2cp1, cache hot, 11 rounds (median known), 2 threads a rank on 4 cores, speedup "
      "over per_sequence");
  EXPECT_THAT(first_words(lines[2]),
              ElementsAre("implementation", "phase", "median", "ms", "p20..p80", "n", "GB/s",
                          "ceiling", "tokens/s", "speedup", "comm"));
  EXPECT_THAT(first_words(lines[5]),
              ElementsAre("per_sequence", "both", "4.000", "3.995..4.006", "11", "2.0", "50%",
                          "read", "12.3k", "1.00x", "12%"));
  EXPECT_THAT(first_words(lines[6]),
              ElementsAre("fused:chunk_tokens=7", "both", "2.000", "1.995..2.006", "11", "2.0",
                          "50%", "read", "12.3k", "2.00x", "12%"));
  EXPECT_THAT(words_of(lines[8]),
              ElementsAre("ceiling", "copy", "1.000", "0.995..1.006", "11", "15.0"));
  EXPECT_EQ(lines[10], "  all-reduce over tp of 2: 2.5 us for 4 bytes, 1.00 GB/s of 1 MiB");
  EXPECT_THAT(lines[11], HasSubstr("straggler: rank 1 in per_sequence, kernels 3.900 ms, 0.300 ms "
                                   "(8%) more than the other ranks"));
  EXPECT_EQ(lines[12], "  skipped: linear_ce: takes hidden states; the case starts from logits");
}

TEST(TimingJson, HasThePaddingOfTheBatchWhereItWasNeeded) {
  TimingRecord record = sample_timing();
  EXPECT_FALSE(timing_to_json(record).contains("padding"));
  record.padding = "sequences to multiples of 16, for mine";
  const Json json = timing_to_json(record);
  EXPECT_EQ(json["padding"], record.padding);
  RunRecord run;
  run.timings = {record};
  const TemporaryFolder folder;
  ReportWriter(folder.file("r.json"), run).finish(run);
  EXPECT_EQ(read_report(folder.file("r.json")).timings[0].padding, record.padding);
}

TEST(TimingTable, ShowsOperationsOfAnLmHead) {
  TimingRecord record = sample_timing();
  record.useful_flops = 2e7;
  record.rows[0].flops_per_second = 3e10;
  record.rows[0].ceiling = "gemm";
  const std::vector<std::string> lines = lines_of(format_timing_table({record}));
  EXPECT_THAT(words_of(lines[2]), Contains("GFLOP/s"));
  EXPECT_THAT(words_of(lines[3]), Contains("30.0"));
  EXPECT_THAT(words_of(lines[3]), Contains("gemm"));
}

TEST(TimingTable, ShowsTheReasonsOfBadRows) {
  TimingRecord record = sample_timing();
  record.not_representative_reason = "8 ranks with 1 thread each share 2 cores";
  record.padding = "sequences to multiples of 16, for mine";
  record.rows[0].status = TimingStatus::unstable;
  record.rows[1].status = TimingStatus::unstable;
  record.rows[0].reason = record.rows[1].reason = "9 distinct samples, fewer than 10";
  record.rows[3].status = TimingStatus::failed;
  record.rows[3].reason = "outputs of the last timed iteration: loss: ratio 2";
  const std::string text = format_timing_table({record});
  EXPECT_THAT(text,
              HasSubstr("\n  not representative: 8 ranks with 1 thread each share 2 cores\n"));
  EXPECT_THAT(text, HasSubstr("\n  padded: sequences to multiples of 16, for mine\n"));
  EXPECT_THAT(text, HasSubstr("\n  failed: fused:chunk_tokens=7 forward_backward: outputs of"));
  EXPECT_THAT(text, HasSubstr("\n  unstable: 2 rows, per_sequence forward: 9 distinct samples"));
}

TEST(TimingTable, ShowsTheReasonIfACaseWasNotTimed) {
  TimingRecord hung = skipped_timing();
  hung.status = TimingStatus::timeout;
  hung.reason = "rank 1: rank 1 hangs";
  EXPECT_THAT(lines_of(format_timing_table({skipped_timing(), hung})),
              ElementsAre("pack: lens=64 vocab=512",
                          "  skipped on tp1cp1dp2, cache hot: only one dp rank with one microbatch "
                          "is timed",
                          "", "pack: lens=64 vocab=512",
                          "  timeout on tp1cp1dp2, cache hot: rank 1: rank 1 hangs"));
}

TEST(TimingTable, LinesHaveAtMost120Columns) {
  TimingRecord record = sample_timing();
  record.case_text.assign(500, 'x');
  record.no_speedup_reason.assign(500, 'y');
  record.skipped[0].reason.assign(500, 'z');
  for (TimingRow& row : record.rows) {
    row.implementation.assign(200, 'i');
    row.time.median_ns = row.time.p20_ns = row.time.p80_ns = 99'999'000'000;
    row.time.samples_ns.resize(1000, 1);
    row.bytes_per_second = 9.99e12;
    row.ceiling = "read+update";
  }
  TimingRecord of_head = record;
  of_head.useful_flops = 1;
  for (TimingRow& row : of_head.rows) {
    row.ceiling = "gemm";
    row.flops_per_second = 9.99e13;
  }
  for (const std::string& line : lines_of(format_timing_table({record, of_head}))) {
    EXPECT_LE(line.size(), 120u) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ');
  }
  EXPECT_EQ(format_timing_table({}), "");
}

TEST(MeterText, ShowsWhatFailed) {
  std::vector<MeterRecord> checks = sample_bench_run().meter;
  EXPECT_EQ(format_meter(checks), "");
  checks[0].passed = false;
  EXPECT_EQ(format_meter(checks),
            "meter: sleep failed: expected 5e+06 ns, measured 5.1e+06: shortest of 5\n");
}

}  // namespace
}  // namespace lossgrid
