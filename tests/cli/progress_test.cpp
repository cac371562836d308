// SPDX-License-Identifier: Apache-2.0
// The progress line: its text, its estimate under an injected clock, and its output on a pseudo
// terminal (script, of Debian's bsdutils) and elsewhere.
#include "harness/cli/text/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process.h"

namespace lossgrid {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(ProgressText, HasCountTimeAndName) {
  EXPECT_EQ(format_progress(3, 40, 119, "ci/C0"), "[3/40] about 2 min left: ci/C0");
  EXPECT_EQ(format_progress(0, 4, 119, ""), "[0/4] about 2 min left");
  EXPECT_EQ(format_progress(3, 40, std::nullopt, "ci/C0"), "[3/40] ci/C0");
  EXPECT_EQ(format_progress(0, 40, std::nullopt, ""), "[0/40]");
}

TEST(ProgressText, TimeIsInStepsThatAreKnown) {
  const auto left = [](double seconds) { return format_progress(1, 2, seconds, ""); };
  EXPECT_EQ(left(0), "[1/2] about 5 s left");
  EXPECT_EQ(left(31), "[1/2] about 35 s left");
  EXPECT_EQ(left(55), "[1/2] about 55 s left");
  EXPECT_EQ(left(56), "[1/2] about 1 min left");
  EXPECT_EQ(left(91), "[1/2] about 2 min left");
  EXPECT_EQ(left(59 * 60), "[1/2] about 59 min left");
  EXPECT_EQ(left(3599), "[1/2] about 1.0 h left");
  EXPECT_EQ(left(3600 * 2.5), "[1/2] about 2.5 h left");
}

TEST(ProgressText, FitsALineOfATerminal) {
  const std::string line = format_progress(3, 40, 119, std::string(100, 'x'));
  EXPECT_EQ(line.size(), 79u);
  EXPECT_TRUE(line.starts_with("[3/40] about 2 min left: xxx"));
  // A character of two bytes is not cut: "[1/2] " and 36 such characters are 78 bytes.
  std::string name;
  for (int i = 0; i < 60; ++i) name += "\xC3\xA4";
  EXPECT_EQ(format_progress(1, 2, std::nullopt, name), "[1/2] " + name.substr(0, 72));
}

/// Progress line with its own file and an injected clock.
class ProgressLine : public ::testing::Test {
 protected:
  ~ProgressLine() override { std::fclose(out_); }

  ClockNs clock() {
    return [this] { return now_ns_; };
  }
  void pass(double seconds) { now_ns_ += static_cast<std::int64_t>(seconds * 1e9); }
  std::string shown() const {
    std::string text(static_cast<std::size_t>(std::ftell(out_)), '\0');
    std::rewind(out_);
    text.resize(std::fread(text.data(), 1, text.size(), out_));
    return text;
  }

  std::FILE* out_ = std::tmpfile();
  std::int64_t now_ns_ = 1'000'000'000;
};

TEST_F(ProgressLine, TrialsAreEstimatedByTheirMean) {
  Progress progress("run", {4, 0, 0}, {}, clock());
  EXPECT_EQ(progress.seconds_left(), std::nullopt);
  pass(2);
  progress.finish_trial("a", false);
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 3 * 2);
  pass(4);
  progress.finish_trial("b", false);
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 2 * 3);
  progress.finish_trial("c", false);
  progress.finish_trial("d", false);
  EXPECT_EQ(progress.seconds_left(), 0);
}

TEST_F(ProgressLine, TimingsAreEstimatedByTheirBudgets) {
  Progress progress("bench", {0, 3, 30 + 30 + 10}, {}, clock());
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 70);  // before a timing is finished
  pass(15);                                               // precise enough after half of the time
  progress.finish_timing("a", 30, false);
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 20);
  pass(45);  // its problem took long to make
  progress.finish_timing("b", 30, false);
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 10);
}

TEST_F(ProgressLine, TrialsDoNotChangeTheEstimateOfTimings) {
  Progress progress("run", {2, 2, 60}, {}, clock());
  EXPECT_EQ(progress.seconds_left(), std::nullopt);
  pass(0.5);
  progress.finish_trial("a", false);
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 0.5 + 60);
  pass(0.5);
  progress.finish_trial("b", false);
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 60);
  pass(6);
  progress.finish_timing("c", 30, false);
  EXPECT_DOUBLE_EQ(progress.seconds_left().value(), 6);
}

TEST_F(ProgressLine, IsWrittenOverAndTakenAway) {
  {
    Progress progress("run", {1, 1, 30}, {out_, true}, clock());
    pass(20);
    progress.finish_trial("a", false);
    progress.finish_timing("b", 30, false);
  }
  EXPECT_EQ(shown(),
            "\r\033[K[0/2]"
            "\r\033[K[1/2] about 30 s left: a"
            "\r\033[K[2/2] b"
            "\r\033[K");
}

TEST(ProgressText, LogLinesCountTrialsTimingsAndFailures) {
  EXPECT_EQ(format_log_line("run", {1200, 3840, 0, 0, 2}, 38),
            "run: 1200 of 3840 trials, 2 failed, about 40 s left");
  EXPECT_EQ(format_log_line("bench", {0, 0, 3, 12, 0}, std::nullopt), "bench: 3 of 12 timings");
  EXPECT_EQ(format_log_line("run", {4, 4, 0, 1, 0}, 30),
            "run: 4 of 4 trials, 0 of 1 timings, about 30 s left");
}

TEST_F(ProgressLine, InALogIsALineNowAndThen) {
  {
    Progress progress("run", {40, 0, 0}, {out_, false}, clock());
    for (int k = 0; k < 40; ++k) {
      pass(k < 20 ? 1 : k < 38 ? 4 : 70);
      progress.finish_trial("a", k == 5);
    }
  }
  // After ten seconds and a tenth of the trials, from the begin of a log line to the next.
  EXPECT_EQ(shown(),
            "run: 0 of 40 trials\n"
            "run: 10 of 40 trials, 1 failed, about 30 s left\n"
            "run: 20 of 40 trials, 1 failed, about 20 s left\n"
            "run: 24 of 40 trials, 1 failed, about 25 s left\n"
            "run: 28 of 40 trials, 1 failed, about 25 s left\n"
            "run: 32 of 40 trials, 1 failed, about 20 s left\n"
            "run: 36 of 40 trials, 1 failed, about 10 s left\n"
            "run: 39 of 40 trials, 1 failed, about 5 s left\n"
            "run: 40 of 40 trials, 1 failed\n");
}

// --- as a user sees it -------------------------------------------------------------------------

/// Returns the stderr of a run on a terminal; stdout goes elsewhere.
std::string on_a_terminal(const ScratchFolder& scratch, const std::string& arguments) {
  const std::string seen = scratch.file("terminal");
  const std::string command = "cd '" LOSSGRID_SOURCE_DIR "' && script -qec \"'" LOSSGRID_EXECUTABLE
                              "' " +
                              arguments + " >/dev/null\" /dev/null >'" + seen + "' </dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  return read_all(seen);
}

constexpr const char* kWatchedRun =
    "run --case 'lens=5+8 vocab=24' --impl fused,cp_local --mode verify,bench --min-samples 2 "
    "--target-stderr 1 --max-seconds 20";

TEST(ProgressOfRun, IsALineOnATerminalAndLinesInALog) {
  const ScratchFolder scratch;
  const std::string seen = on_a_terminal(scratch, kWatchedRun);
  EXPECT_THAT(seen, HasSubstr("[0/3]"));
  EXPECT_THAT(seen, ContainsRegex("\\[1/3\\] about [0-9.]+ (s|min|h) left: "));
  EXPECT_THAT(seen, HasSubstr("[3/3] lens=5+8 vocab=24 tp1cp1 hot\r\033[K"));
  EXPECT_EQ(on_a_terminal(scratch, kWatchedRun + std::string(" --quiet")), "");
  EXPECT_EQ(run_lossgrid(scratch, kWatchedRun).err, "run: 0 of 2 trials, 0 of 1 timings\n");
  EXPECT_EQ(run_lossgrid(scratch, kWatchedRun + std::string(" --quiet")).err, "");
}

}  // namespace
}  // namespace lossgrid
