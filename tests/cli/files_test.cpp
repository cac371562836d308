// SPDX-License-Identifier: Apache-2.0
// Files with wrong contents, and output that cannot be written: one line, exit code 65, and nothing
// lost or left behind.
#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "background.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOneTrial = "run --case 'lens=5+8 vocab=96' --impl fused ";

/// Runs `script` in bash, with the executable as $LOSSGRID and the folder as $D.
ProcessResult run_bash(const ScratchFolder& scratch, const std::string& script) {
  const std::string file = scratch.file("script");
  write_all(file, "LOSSGRID='" LOSSGRID_EXECUTABLE "'\nD='" + scratch.path() + "'\n" + script);
  return run_executable(scratch, "/bin/bash", file);
}

std::size_t count_lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Makes a report of one trial that passed.
std::string make_report(const ScratchFolder& scratch) {
  const std::string report = scratch.file("report.json");
  EXPECT_EQ(run_lossgrid(scratch, kOneTrial + ("--report " + report)).exit_code, 0);
  return report;
}

TEST(Reports, TwoRunsDoNotWriteOne) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string partial = report + ".partial.jsonl";
  BackgroundProcess first(scratch, "first",
                          "'" LOSSGRID_EXECUTABLE
                          "' run --case 'lens=5+8 vocab=96' --impl fused --grid tp1cp1,tp2cp1 "
                          "--inject rank=0,at=forward,trial=2,kind=hang --report " +
                              report);
  ASSERT_TRUE(wait_until([&] { return lines_with(partial, "begin") == 2; }));
  const std::string before = read_all(partial);
  for (const std::string& more :
       std::vector<std::string>{std::string(), " --resume " + partial, std::string(" --supervise"),
                                std::string(" --seeds 3")}) {
    const ProcessResult second = run_lossgrid(scratch, kOneTrial + ("--report " + report) + more);
    EXPECT_EQ(second.exit_code, 65) << more << second.out;
    EXPECT_EQ(second.err, "lossgrid: cannot write " + partial + ": another process writes it\n");
    EXPECT_EQ(second.out, "");
    EXPECT_EQ(read_all(partial), before);
  }
  EXPECT_FALSE(std::filesystem::exists(report));

  first.send(SIGKILL);  // the lock ends with the process
  EXPECT_EQ(first.wait().exit_code, 1000 + SIGKILL);
  const ProcessResult third =
      run_lossgrid(scratch, std::string("run --case 'lens=5+8 vocab=96' --impl fused --grid "
                                        "tp1cp1,tp2cp1 --report ") +
                                report + " --resume " + partial);
  EXPECT_EQ(third.exit_code, 0) << third.err;
  EXPECT_THAT(third.out, HasSubstr("2 passed"));
  EXPECT_FALSE(std::filesystem::exists(partial));
}

TEST(Reports, ASupervisedRunHasItsReportForItself) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  BackgroundProcess first(scratch, "first",
                          "'" LOSSGRID_EXECUTABLE
                          "' run --case 'lens=5+8 vocab=96' --impl fused --supervise "
                          "--inject rank=0,at=forward,kind=hang --report " +
                              report);
  ASSERT_TRUE(
      wait_until([&] { return lines_with(report + ".launch.json.partial.jsonl", "begin") == 1; }));
  for (const std::string& more : std::vector<std::string>{"", " --supervise"}) {
    const ProcessResult second = run_lossgrid(scratch, kOneTrial + ("--report " + report) + more);
    EXPECT_EQ(second.exit_code, 65) << second.out;
    EXPECT_EQ(second.err,
              "lossgrid: cannot write " + report + ".partial.jsonl: another process writes it\n");
  }
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, 143);
  EXPECT_FALSE(std::filesystem::exists(report + ".partial.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(report + ".launch.json.partial.jsonl"));
}

TEST(Stdout, EveryCommandReportsAFailedWrite) {
  const ScratchFolder scratch;
  const std::string report = make_report(scratch);
  write_all(scratch.file("policy.json"), run_lossgrid(scratch, "schema").out);
  for (const std::string& command : std::vector<std::string>{
           std::string("--help"), std::string("--version"), std::string("run --help"),
           std::string("list suites"), std::string("list mutants"), std::string("schema"),
           std::string(kOneTrial), std::string(kOneTrial) + "--report " + scratch.file("new.json"),
           "validate " + report, "compare " + report + ' ' + report,
           "compare --format json " + report + ' ' + report, "export --to junit " + report,
           "export --to markdown -o - " + report, "html -o - " + report,
           "gate " + report + ' ' + report + " --policy reports/policies/exact.json",
           std::string("plan --case 'lens=64 vocab=96' --grid tp1"),
           "history append " + report + " --file " + scratch.file("h.jsonl")}) {
    const ProcessResult full = run_bash(scratch, "exec $LOSSGRID " + command + " >/dev/full");
    EXPECT_EQ(full.exit_code, 65) << command;
    EXPECT_THAT(full.err,
                EndsWith("lossgrid: cannot write to standard output: No space left on device\n"))
        << command;
    const ProcessResult closed = run_bash(scratch, "exec $LOSSGRID " + command + " >&-");
    EXPECT_EQ(closed.exit_code, 65) << command;
    EXPECT_THAT(closed.err,
                EndsWith("lossgrid: cannot write to standard output: Bad file descriptor\n"))
        << command;
  }
  // The report of a run whose table nobody could read exists and is complete.
  EXPECT_EQ(ordered_json::parse(read_all(scratch.file("new.json")))["run"]["status"], "complete");
}

TEST(Stdout, AVerdictIsKept) {
  const ScratchFolder scratch;
  const ProcessResult wrong =
      run_bash(scratch,
               "exec $LOSSGRID run --case 'lens=5+8 vocab=96' --impl fused --inject "
               "rank=0,at=forward,kind=nan >/dev/full");
  EXPECT_EQ(wrong.exit_code, 10) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("cannot write to standard output"));
}

// The page is longer than the buffer of a pipe.
TEST(Stdout, AReaderThatLeavesEndsItQuietly) {
  const ScratchFolder scratch;
  const std::string page = "$LOSSGRID html -o - " + make_report(scratch);
  for (const char* ignored : {"", "trap '' PIPE; "}) {
    const ProcessResult result =
        run_bash(scratch, ignored + ("{ " + page) + "; echo $? >&2; } | head -n 1");
    EXPECT_EQ(count_lines(result.out), 1u);
    EXPECT_EQ(result.err, "141\n");
  }
}

TEST(Input, IdlePipesAndHugeFilesAreRefusedAtOnce) {
  const ScratchFolder scratch;
  const std::string report = make_report(scratch);
  ASSERT_EQ(::mkfifo(scratch.file("fifo").c_str(), 0600), 0);
  ASSERT_EQ(run_bash(scratch, "truncate -s 3T $D/long.json").exit_code, 0);
  const auto expect_refused = [&](const std::string& arguments, const std::string& reason) {
    const ProcessResult result = run_bash(scratch, "exec timeout -k 5 60 $LOSSGRID " + arguments);
    EXPECT_EQ(result.exit_code, 65) << arguments << result.out << result.err;
    EXPECT_EQ(count_lines(result.err), 1u) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("cannot read "), HasSubstr(reason))) << arguments;
  };
  for (const std::string& arguments : std::vector<std::string>{
           "validate FILE", "compare FILE " + report, "compare " + report + " FILE",
           "gate FILE --policy reports/policies/exact.json", "gate " + report + " --policy FILE",
           "html -o - FILE", "export --to junit FILE", "history show --file FILE", "replay FILE",
           kOneTrial + std::string("--resume FILE")}) {
    std::string line = arguments;
    line.replace(line.find("FILE"), 4, "/dev/zero");
    expect_refused(line, "it is a device");
  }
  for (const std::string& command : std::vector<std::string>{"validate ", "replay "}) {
    expect_refused(command + "/dev/urandom", "it is a device");
    expect_refused(command + "/dev/null", "it is a device");
    expect_refused(command + scratch.file("fifo"), "it is a pipe that nobody writes to");
    expect_refused(command + scratch.file("long.json"), "it has more than ");
  }
  expect_refused("validate <(cat /dev/zero)", "it has more than 1.0 GiB");
}

TEST(Input, MayBeAPipe) {
  const ScratchFolder scratch;
  const std::string report = make_report(scratch);
  const ProcessResult result = run_bash(
      scratch, "gzip -k " + report + "\n$LOSSGRID validate <(zcat " + report +
                   ".gz) && $LOSSGRID compare <(cat " + report + ") <(sleep 0.3; cat " + report +
                   ") && $LOSSGRID validate /dev/stdin < " + report + " && cat " + report +
                   " | $LOSSGRID validate /dev/stdin && mkfifo $D/fifo && { (sleep 0.3; cat " +
                   report + " >$D/fifo) & $LOSSGRID validate $D/fifo; }");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::size_t valid = 0;
  for (std::size_t at = 0; (at = result.out.find(": valid ", at)) != std::string::npos; ++at)
    ++valid;
  EXPECT_EQ(valid, 4u) << result.out;
}

TEST(FullDisk, EndsInAnErrorAndNoSignalAsALimitOnFilesDoes) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string partial = report + ".partial.jsonl";
  // The report grows beyond 32 KiB while the run goes on.
  const ProcessResult limited = run_bash(
      scratch,
      "ulimit -f 32\nexec $LOSSGRID run --case 'lens=5+8 vocab=96' --impl fused --seeds 20 "
      "--report " +
          report);
  EXPECT_EQ(limited.exit_code, 65) << limited.out << limited.err;
  EXPECT_THAT(limited.err, EndsWith("lossgrid: cannot write " + partial + ": File too large\n"));
  EXPECT_FALSE(std::filesystem::exists(report));
  const std::size_t kept = lines_with(partial, "{\"trial");
  EXPECT_GE(kept, 1u);
  const ProcessResult resumed =
      run_lossgrid(scratch, "run --case 'lens=5+8 vocab=96' --impl fused --seeds 20 --resume " +
                                report + " --report " + report);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("20 passed"));

  for (const std::string& command : std::vector<std::string>{
           "export --to junit " + report + " -o $D/out", "html " + report + " -o $D/out"}) {
    const ProcessResult result = run_bash(scratch, "ulimit -f 1\nexec $LOSSGRID " + command);
    EXPECT_EQ(result.exit_code, 65) << command;
    EXPECT_EQ(result.err, "lossgrid: cannot write " + scratch.file("out") + ": File too large\n");
    EXPECT_FALSE(std::filesystem::exists(scratch.file("out")));
  }
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".tmp-")));
  }
}

TEST(FullDisk, FailedSnapshotsAndTracesAreInTheSummary) {
  const ScratchFolder scratch;
  // The output goes to a pipe, since it is longer than the limit too.
  const auto run_limited = [&](const std::string& arguments) {
    return run_bash(scratch, "(ulimit -f 1; exec $LOSSGRID " + (kOneTrial + arguments) +
                                 ") | cat\nexit ${PIPESTATUS[0]}");
  };
  const ProcessResult result = run_limited("--memory-snapshot $D/snaps --trace $D/t.json");
  EXPECT_EQ(result.exit_code, 65) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 passed"));
  EXPECT_THAT(result.out, HasSubstr("memory snapshots: " + scratch.file("snaps") +
                                    ", INCOMPLETE: cannot write " + scratch.file("snaps")));
  EXPECT_THAT(result.out,
              HasSubstr("trace: " + scratch.file("t.json") + ", INCOMPLETE: cannot write " +
                        scratch.file("t.json") + ": File too large\n"));
  EXPECT_EQ(count_lines(result.err), 3u) << result.err;  // the first line is the progress

  const ProcessResult failed =
      run_limited("--inject rank=0,at=forward,kind=nan --memory-snapshot $D/more");
  EXPECT_EQ(failed.exit_code, 10) << failed.out;
  EXPECT_THAT(failed.out, HasSubstr("INCOMPLETE"));
}

TEST(Terminal, ObeysNothingOfFilesAndArguments) {
  const ScratchFolder scratch;
  const std::string evil = "a\nb\x1b[31mEVIL\xC2\x9B";
  ordered_json report = ordered_json::parse(read_all(make_report(scratch)));
  report["trials"][0]["case"]["name"] = evil;
  report["trials"][0]["id"] = evil;
  write_all(scratch.file("base.json"), report.dump());
  report["trials"][0]["reason"] = evil;
  report["trials"][0]["status"] = "failed";
  write_all(scratch.file("head.json"), report.dump());
  report["trials"][0]["status"] = evil;
  write_all(scratch.file("status.json"), report.dump());
  write_all(scratch.file("format.json"), ordered_json{{"schema", evil}}.dump());
  write_all(scratch.file("suite.json"), ordered_json{{"suite", evil}, {evil, evil}}.dump());
  const std::string words = "$'a\\nb\\e[31mEVIL'";
  for (const std::string& command : std::vector<std::string>{
           std::string("validate $D/format.json"), std::string("validate $D/status.json"),
           std::string("compare $D/base.json $D/head.json"),
           std::string("gate $D/base.json $D/head.json --policy reports/policies/exact.json"),
           std::string("run --suite $D/suite.json"), kOneTrial + ("--grid " + words),
           "run --impl " + words + " --case 'lens=5 vocab=24'", "run --case $'b\\e[31mEVIL=1'",
           "run --suite " + words, words, "run --" + words, "list " + words, "validate " + words,
           "replay " + words, "export --to " + words + " $D/report.json"}) {
    const ProcessResult result = run_bash(scratch, "exec $LOSSGRID " + command);
    EXPECT_NE(result.exit_code, 0) << command;
    for (const std::string& text : {result.out, result.err}) {
      EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << command;
      EXPECT_THAT(text, Not(HasSubstr("\xC2\x9B"))) << command;
      EXPECT_THAT(text, Not(HasSubstr("a\nb"))) << command;
    }
    EXPECT_THAT(result.out + result.err, HasSubstr("b\\u001b[31mEVIL")) << command;
  }
}

}  // namespace
}  // namespace lossgrid
