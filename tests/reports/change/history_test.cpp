// SPDX-License-Identifier: Apache-2.0
#include "reports/change/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "reports/text/history_text.h"
#include "sample_run.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

RunRecord run_at(const std::string& started_utc, const std::string& commit) {
  RunRecord run = sample_bench_run();
  run.trials = {sample_trial(1, 1, "fused"), sample_failure()};
  run.started_utc = started_utc;
  run.environment["tool"]["git_revision"] = commit;
  return run;
}

std::string error_of(std::string_view text) {
  try {
    history_series(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(History, HasALineForEachRowAndPassedTrial) {
  const std::string lines = history_lines(run_at("2026-01-02T03:04:05Z", "abc1234"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5);
  EXPECT_THAT(lines, StartsWith(R"({"schema":"lossgrid.history/1","run":")"));
  EXPECT_THAT(lines,
              HasSubstr(R"("started_utc":"2026-01-02T03:04:05Z","commit":"abc1234",)"
                        R"("case":"lens=64 vocab=512","grid":"tp2cp1",)"
                        R"("implementation":"fused:chunk_tokens=7","phase":"forward_backward",)"
                        R"("cache":"hot","reference":"per_sequence",)"
                        R"("machine":"a model, 2 cpus","time_ratio":0.5,)"));
  EXPECT_THAT(lines, HasSubstr(R"("case":"vocab=96 lens=5+8","grid":"tp1cp1",)"
                               R"("implementation":"fused","backend":"cpu","peak_bytes":2048,)"
                               R"("payload_bytes":184,"calls":4})"));
}

TEST(History, JoinsRunsToSeriesByTime) {
  const std::string text = history_lines(run_at("2026-01-03T00:00:00Z", "later")) +
                           history_lines(run_at("2026-01-02T00:00:00Z", "first"));
  const std::vector<HistorySeries> history = history_series(text);
  ASSERT_THAT(history, SizeIs(4 + 3));
  const HistorySeries& fused = history[3];
  EXPECT_TRUE(fused.is_time());
  EXPECT_EQ(fused.implementation, "fused:chunk_tokens=7");
  EXPECT_EQ(fused.reference, "per_sequence");
  ASSERT_THAT(fused.points, SizeIs(2));
  EXPECT_EQ(fused.points[0].run.commit, "first");
  EXPECT_EQ(fused.points[1].run.commit, "later");
  EXPECT_EQ(fused.points[0].value, 0.5);
  EXPECT_NEAR(fused.points[0].stderr_ratio.value(), 0.0025 * std::sqrt(2), 1e-12);
  EXPECT_EQ(history[0].reference, "read");  // the baseline itself
  EXPECT_EQ(history[4].metric, "peak_bytes");
  EXPECT_EQ(history[4].points[1].value, 2048);
}

TEST(History, OtherMachinesAndReferencesAreOtherSeries) {
  RunRecord run = run_at("2026-01-02T00:00:00Z", "a");
  const std::string first = history_lines(run);
  run.environment["host"]["cpus"] = 4;
  EXPECT_THAT(history_series(first + history_lines(run)), SizeIs(2 * 4 + 3));
  run = run_at("2026-01-02T00:00:00Z", "a");
  run.timings[0].baseline = "fused:chunk_tokens=7";
  for (TimingRow& row : run.timings[0].rows) row.ceiling_ratio.reset();
  EXPECT_THAT(history_series(first + history_lines(run)), SizeIs(4 + 3 + 3));
}

TEST(History, ErrorsNameTheLine) {
  const std::string good = history_lines(run_at("2026-01-02T03:04:05Z", "a"));
  const std::string line = good.substr(0, good.find('\n') + 1);
  EXPECT_THAT(history_series(""), IsEmpty());
  EXPECT_THAT(history_series(line + line.substr(0, 70)), SizeIs(1));  // cut off
  EXPECT_THAT(history_series(line + "{\"sch"), SizeIs(1));
  std::string newer = line;
  newer.replace(newer.find("history/1"), 9, "history/2");
  std::string zero = line;
  zero.replace(zero.find("\"time_ratio\":") + 13, 1, "-1");
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {line + "{}\n", "line 2: the key 'schema' is missing"},
           {"no json", "line 1: it is no JSON"},
           {line + "[]\n" + line, "line 2: the key 'schema' is missing"},
           {newer,
            "line 1: it has the format 'lossgrid.history/2', this lossgrid reads "
            "'lossgrid.history/1'"},
           {zero, "line 1: 'time_ratio' must be above 0"}}) {
    EXPECT_EQ(error_of(text), message);
  }
}

TEST(AppendHistory, AddsARunOnce) {
  const TemporaryFolder folder;
  const std::string path = folder.file("new/history.jsonl");
  const RunRecord first = run_at("2026-01-02T00:00:00Z", "a");
  EXPECT_EQ(append_history(path, first), 5u);
  EXPECT_EQ(append_history(path, first), 0u);
  write_file_atomically(path, read_text_file(path) + R"({"schema":"lossgrid.history/1","ru)");
  EXPECT_EQ(append_history(path, run_at("2026-01-03T00:00:00Z", "b")), 5u);
  for (const HistorySeries& series : read_history(path)) EXPECT_THAT(series.points, SizeIs(2));

  EXPECT_THROW(append_history(path, RunRecord{}), Error);
  const std::string other = folder.file("other.json");
  write_file_atomically(other, std::string("{\"one\": 1}"));
  EXPECT_THROW(append_history(other, first), Error);
  EXPECT_EQ(read_text_file(other), "{\"one\": 1}");
}

TEST(HistoryText, ShowsChangesOfTimesAndCounters) {
  std::string text;
  for (int day = 1; day <= 20; ++day) {
    RunRecord run = run_at(fmt::format("2026-01-{:02}T00:00:00Z", day), fmt::format("c{}", day));
    if (day > 12) run.timings[0].rows[3].speedup = 1.6;
    if (day > 12) run.trials[0].memory[2].measured_peak_bytes += 1024;
    text += history_lines(run);
  }
  const std::vector<HistorySeries> history = history_series(text);
  const std::string shown = format_history(history);
  EXPECT_THAT(shown, HasSubstr("time over per_sequence, on a model, 2 cpus\n"));
  EXPECT_THAT(shown, HasSubstr("fused:chunk_tokens=7  forward_backward  hot      20  0.500  0.625  "
                               "+25.0 % at c13 of 2026-01-13\n"));
  EXPECT_THAT(shown, HasSubstr("peak_bytes\n"));
  EXPECT_THAT(shown, HasSubstr("2048   3072  +50.0 % at c13 of 2026-01-13\n"));
  EXPECT_THAT(shown, HasSubstr("\n2 counters never changed\n"));
  const nlohmann::ordered_json json = history_to_json(history);
  ASSERT_EQ(json["series"].size(), 7u);
  EXPECT_EQ(json["series"][3]["points"].size(), 20u);
  EXPECT_EQ(json["series"][3]["changes"][0]["index"], 12);
  EXPECT_EQ(json["series"][3]["changes"][0]["ratio"], 1.25);
  EXPECT_EQ(json["series"][0]["changes"].size(), 0u);
}

}  // namespace
}  // namespace lossgrid
