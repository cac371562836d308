// SPDX-License-Identifier: Apache-2.0
// Timing records as JSON and as text: units in the keys, null for what was not measured, and
// reasons wherever a number is missing.
#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/timing_record.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TimingEntry sample_entry(const std::string& implementation, std::int64_t median_ns) {
  TimingEntry entry;
  entry.implementation = implementation;
  for (int round = 0; round < 11; ++round) {
    entry.samples_ns.push_back(median_ns + 1000 * (round % 2 == 0 ? round : -round));
  }
  entry.median_ns = median_ns;
  entry.p20_ns = median_ns - 5000;
  entry.p80_ns = median_ns + 6000;
  entry.ratio_to_baseline = static_cast<double>(median_ns) / 4'000'000;
  entry.useful_flops_per_second = 2e7 / (static_cast<double>(median_ns) * 1e-9);
  entry.own_flops = 25'000'000;
  return entry;
}

TimingRecord sample_timing() {
  TimingRecord record;
  record.case_name = "head";
  record.case_text = "lens=64 vocab=512 hidden=96";
  record.grid = "tp2cp1";
  record.baseline = "linear_materialized";
  record.rounds = 11;
  record.useful_flops = 2e7;
  TimingEntry skipped;
  skipped.implementation = "fused";
  skipped.why_skipped = "takes logits; the case starts from hidden states";
  record.entries = {sample_entry("linear_materialized", 4'000'000), skipped,
                    sample_entry("linear_ce", 5'000'000)};
  return record;
}

TimingRecord skipped_timing() {
  TimingRecord record = sample_timing();
  record.status = TimingStatus::skipped;
  record.reason = "only one dp rank with one microbatch is timed";
  record.grid = "tp1cp1dp2";
  record.entries.clear();
  return record;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(TimingJson, HasItsKeysInOrderWithUnits) {
  const Json json = timing_to_json(sample_timing());
  EXPECT_THAT(keys_of(json), ElementsAre("case", "grid", "baseline", "rounds", "status", "reason",
                                         "unstable", "unstable_reason", "useful_flops", "entries"));
  ASSERT_EQ(json["entries"].size(), 3u);
  for (const Json& entry : json["entries"]) {
    EXPECT_THAT(keys_of(entry), ElementsAre("implementation", "status", "reason", "samples_ns",
                                            "median_ns", "p20_ns", "p80_ns", "ratio_to_baseline",
                                            "useful_flops_per_second", "own_flops"));
  }
  EXPECT_EQ(keys_of(timing_to_json(skipped_timing())), keys_of(json));
}

TEST(TimingJson, HoldsWhatTheRecordHolds) {
  const Json json = timing_to_json(sample_timing());
  EXPECT_EQ(json["case"]["name"], "head");
  EXPECT_EQ(json["case"]["text"], "lens=64 vocab=512 hidden=96");
  EXPECT_EQ(json["grid"], "tp2cp1");
  EXPECT_EQ(json["baseline"], "linear_materialized");
  EXPECT_EQ(json["rounds"], 11);
  EXPECT_EQ(json["status"], "timed");
  EXPECT_EQ(json["useful_flops"], 2e7);
  const Json& entry = json["entries"][2];
  EXPECT_EQ(entry["implementation"], "linear_ce");
  EXPECT_EQ(entry["samples_ns"].size(), 11u);
  EXPECT_EQ(entry["samples_ns"][1], 4'999'000);  // in the order of the rounds, not sorted
  EXPECT_EQ(entry["median_ns"], 5'000'000);
  EXPECT_EQ(entry["p20_ns"], 4'995'000);
  EXPECT_EQ(entry["p80_ns"], 5'006'000);
  EXPECT_EQ(entry["ratio_to_baseline"], 1.25);
  EXPECT_DOUBLE_EQ(entry["useful_flops_per_second"], 4e9);
  EXPECT_EQ(entry["own_flops"], 25'000'000);
}

TEST(TimingJson, WhatWasNotTimedIsNullWithAReason) {
  const Json json = timing_to_json(sample_timing());
  const Json& skipped = json["entries"][1];
  EXPECT_EQ(skipped["status"], "skipped");
  EXPECT_EQ(skipped["reason"], "takes logits; the case starts from hidden states");
  EXPECT_TRUE(skipped["samples_ns"].empty());
  for (const char* key : {"median_ns", "p20_ns", "p80_ns", "ratio_to_baseline",
                          "useful_flops_per_second", "own_flops"}) {
    EXPECT_TRUE(skipped[key].is_null()) << key;
    EXPECT_FALSE(json["entries"][0][key].is_null()) << key;
  }
  const Json record = timing_to_json(skipped_timing());
  EXPECT_EQ(record["status"], "skipped");
  EXPECT_EQ(record["reason"], "only one dp rank with one microbatch is timed");
  EXPECT_TRUE(record["entries"].empty());
}

TEST(TimingJson, ProblemsFromLogitsHaveNoUsefulWork) {
  TimingRecord record = sample_timing();
  record.useful_flops = 0;
  for (TimingEntry& entry : record.entries) entry.useful_flops_per_second = 0;
  const Json json = timing_to_json(record);
  EXPECT_EQ(json["useful_flops"], 0);
  EXPECT_TRUE(json["entries"][0]["useful_flops_per_second"].is_null());
  EXPECT_EQ(json["entries"][0]["median_ns"], 4'000'000);
}

TEST(TimingJson, FewSamplesAreUnstable) {
  for (const std::int64_t rounds : {1, 9, 10, 11}) {
    TimingRecord record = sample_timing();
    record.rounds = rounds;
    const Json json = timing_to_json(record);
    EXPECT_EQ(json["unstable"], rounds < 10) << rounds;
    EXPECT_EQ(json["unstable_reason"], rounds < 10 ? "fewer than 10 samples" : "") << rounds;
    EXPECT_EQ(
        format_timing_table({record}).find("unstable: fewer than 10 samples") != std::string::npos,
        rounds < 10);
  }
  TimingRecord skipped = skipped_timing();  // without samples there is nothing to doubt
  skipped.rounds = 1;
  EXPECT_EQ(timing_to_json(skipped)["unstable"], false);
}

TEST(TimingJson, StatusesHaveNames) {
  EXPECT_EQ(name(TimingStatus::timed), "timed");
  EXPECT_EQ(name(TimingStatus::skipped), "skipped");
  EXPECT_EQ(name(TimingStatus::error), "error");
  EXPECT_EQ(name(TimingStatus::timeout), "timeout");
}

TEST(TimingTable, HasARowForEveryImplementation) {
  const std::vector<std::string> lines = lines_of(format_timing_table({sample_timing()}));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "head: lens=64 vocab=512 hidden=96");
  EXPECT_EQ(lines[1], "  on tp2cp1, 11 rounds in turn, ratio to linear_materialized");
  EXPECT_THAT(words_of(lines[2]), ElementsAre("implementation", "median", "ms", "p20", "to", "p80",
                                              "ms", "ratio", "GFLOP/s", "useful"));
  EXPECT_THAT(words_of(lines[3]),
              ElementsAre("linear_materialized", "4.000", "3.995", "to", "4.006", "1.000", "5.0"));
  EXPECT_THAT(words_of(lines[4]),
              ElementsAre("linear_ce", "5.000", "4.995", "to", "5.006", "1.250", "4.0"));
  EXPECT_EQ(lines[5], "  skipped fused: takes logits; the case starts from hidden states");
}

TEST(TimingTable, SaysWhyACaseWasNotTimed) {
  TimingRecord hung = skipped_timing();
  hung.status = TimingStatus::timeout;
  hung.reason = "rank 1: rank 1 hangs";
  const std::vector<std::string> lines = lines_of(format_timing_table({skipped_timing(), hung}));
  EXPECT_THAT(lines, ElementsAre("head: lens=64 vocab=512 hidden=96",
                                 "  skipped on tp1cp1dp2: only one dp rank with one microbatch is "
                                 "timed",
                                 "", "head: lens=64 vocab=512 hidden=96",
                                 "  timeout on tp1cp1dp2: rank 1: rank 1 hangs"));
}

TEST(TimingTable, OfLogitsHasNoUsefulRate) {
  TimingRecord record = sample_timing();
  record.useful_flops = 0;
  const std::vector<std::string> lines = lines_of(format_timing_table({record}));
  EXPECT_EQ(words_of(lines[3]).back(), "-");
  EXPECT_EQ(words_of(lines[4]).back(), "-");
}

TEST(TimingTable, TitlesAreNotSaidTwiceAndLinesAreNotEndless) {
  TimingRecord record = sample_timing();
  record.case_name = record.case_text;
  EXPECT_EQ(lines_of(format_timing_table({record}))[0], record.case_text);
  record.case_name.clear();
  EXPECT_EQ(lines_of(format_timing_table({record}))[0], record.case_text);
  record.case_text.assign(500, 'x');
  record.entries[1].why_skipped.assign(500, 'y');
  for (const std::string& line : lines_of(format_timing_table({record}))) {
    EXPECT_LE(line.size(), 130u);
    EXPECT_TRUE(line.empty() || line.back() != ' ');
  }
  EXPECT_EQ(format_timing_table({}), "");
}

}  // namespace
}  // namespace lossgrid
