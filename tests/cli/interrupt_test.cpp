// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and its kin: finished work is printed and written, the rest is named, and --resume
// continues.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "background.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFourTrials =
    "run --case 'lens=5+8 vocab=96' --impl fused,cp_local --grid tp1cp1,tp2cp2 ";
constexpr const char* kThirdHangs = "--inject rank=0,at=forward,trial=3,kind=hang ";

std::string with_executable(const std::string& arguments) {
  return "'" LOSSGRID_EXECUTABLE "' " + arguments;
}

ordered_json report_at(const std::string& path) {
  return ordered_json::parse(read_all(path));
}

std::vector<std::string> trial_statuses_in(const ordered_json& report) {
  std::vector<std::string> statuses;
  for (const ordered_json& trial : report["trials"]) statuses.push_back(trial["status"]);
  return statuses;
}

/// Returns the names of the files in `folder` other than the output of processes.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".out") && !name.ends_with(".err")) names.push_back(name);
  }
  return names;
}

struct Interrupt {
  const char* name;
  int signal;
};

class Interrupted : public testing::TestWithParam<Interrupt> {};

// The third trial never ends, so only the interrupt ends the run.
TEST_P(Interrupted, ReportsWhatIsDoneAndGoesOn) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  BackgroundProcess run(
      scratch, "run",
      with_executable(std::string(kFourTrials) + kThirdHangs + "--report " + report));
  ASSERT_TRUE(wait_until([&] { return lines_with(report + ".partial.jsonl", "begin") == 3; }));
  run.send(GetParam().signal);
  const ProcessResult result = run.wait();
  EXPECT_EQ(result.exit_code, 128 + GetParam().signal) << result.out << result.err;
  EXPECT_THAT(result.err,
              EndsWith(fmt::format("lossgrid: {}: the run ends here; once more ends it at once\n",
                                   GetParam().name)));
  EXPECT_THAT(result.out, HasSubstr("2 passed, 2 not run\n"));
  EXPECT_THAT(result.out, HasSubstr("not run 1: interrupted while it ran (cp_local)\n"
                                    "not run 1: interrupted (cp_local)\n"));
  EXPECT_THAT(result.out, HasSubstr("report: " + report + "\n"));
  EXPECT_THAT(result.out, HasSubstr("\ncontinue: lossgrid run --case 'lens=5+8 vocab=96' "));
  EXPECT_THAT(result.out, HasSubstr(" --resume " + report + "\n"));
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("r.json"));

  const ordered_json left = report_at(report);
  EXPECT_EQ(left["run"]["status"], "partial");
  EXPECT_EQ(left["run"]["exit_code"], 128 + GetParam().signal);
  EXPECT_THAT(trial_statuses_in(left), ElementsAre("passed", "passed", "not_run", "not_run"));
  EXPECT_EQ(left["trials"][2]["reason"], "interrupted while it ran");
  EXPECT_EQ(left["trials"][3]["reason"], "interrupted");
  for (const std::string& command : {std::string("validate "), std::string("html ")}) {
    const ProcessResult read = run_lossgrid(scratch, command + report);
    EXPECT_EQ(read.exit_code, 0) << command << read.out << read.err;
  }
  const ProcessResult compared = run_lossgrid(scratch, "compare " + report + " " + report);
  EXPECT_EQ(compared.exit_code, 14) << compared.err;  // the run is incomplete
  EXPECT_THAT(compared.out, HasSubstr(fmt::format("HEAD did not come to its end, exit code {}",
                                                  128 + GetParam().signal)));

  const std::string whole = scratch.file("whole.json");
  const ProcessResult resumed =
      run_lossgrid(scratch, kFourTrials + ("--resume " + report) + " --report " + whole);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  const ordered_json now = report_at(whole);
  EXPECT_THAT(trial_statuses_in(now), ElementsAre("passed", "passed", "passed", "passed"));
  EXPECT_EQ(now["trials"][0]["times"], left["trials"][0]["times"]);  // not run again
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupted,
                         testing::Values(Interrupt{"SIGINT", SIGINT}, Interrupt{"SIGTERM", SIGTERM},
                                         Interrupt{"SIGHUP", SIGHUP}),
                         [](const auto& of) { return std::string(of.param.name); });

// The printed line, unchanged, continues the run.
TEST(Interrupts, TheLineThatIsPrintedGoesOn) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  BackgroundProcess run(
      scratch, "run",
      with_executable("run --case 'lens=5+8 vocab=96' --impl fused --seeds 400 --quiet --report=" +
                      report));
  ASSERT_TRUE(wait_until([&] { return lines_with(report + ".partial.jsonl", "{\"trial") >= 3; }));
  run.send(SIGINT);
  const ProcessResult result = run.wait();
  ASSERT_EQ(result.exit_code, 130) << result.out << result.err;
  const ordered_json left = report_at(report);
  ASSERT_EQ(left["trials"].size(), 400u);
  const std::vector<std::string> statuses = trial_statuses_in(left);
  const auto passed = std::count(statuses.begin(), statuses.end(), "passed");
  EXPECT_GE(passed, 3);
  EXPECT_LT(passed, 400);

  const std::string mark = "\ncontinue: lossgrid ";
  const std::size_t at = result.out.find(mark);
  ASSERT_NE(at, std::string::npos) << result.out;
  const std::size_t begin = at + mark.size();
  const ProcessResult resumed =
      run_lossgrid(scratch, result.out.substr(begin, result.out.find('\n', begin) - begin));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("400 passed"));
  EXPECT_EQ(report_at(report)["trials"][0]["times"], left["trials"][0]["times"]);
}

/// Returns a command whose first trial hangs; `crumbs` exist as soon as the trial has begun.
std::string run_that_hangs(const std::string& crumbs) {
  return "env LOSSGRID_BREADCRUMBS=" + crumbs + ' ' +
         with_executable(std::string(kFourTrials) +
                         "--inject rank=0,at=forward,trial=1,kind=hang ");
}

// Nobody reads the pipe of the report, so the first signal cannot finish.
TEST(Interrupts, TheSecondEndsItAtOnce) {
  const ScratchFolder scratch;
  const std::string crumbs = scratch.file("crumbs");
  ASSERT_EQ(::mkfifo(scratch.file("fifo").c_str(), 0600), 0);
  BackgroundProcess run(scratch, "run",
                        run_that_hangs(crumbs) + "--report " + scratch.file("fifo"));
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(crumbs + "/rank00000.crumbs"); }));
  run.send(SIGTERM);
  ASSERT_TRUE(wait_until([&] { return lines_with(scratch.file("run.err"), "SIGTERM") == 1; }));
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().exit_code, 1000 + SIGTERM);
}

// Signals are ignored, as by a shell for nohup and &.
TEST(Interrupts, IgnoredSignalsStayIgnored) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  BackgroundProcess run(
      scratch, "run",
      "env --ignore-signal=HUP " +
          with_executable("run --case 'lens=5+8 vocab=96' --impl fused --seeds 40 --report " +
                          report));
  ASSERT_TRUE(wait_until([&] { return lines_with(report + ".partial.jsonl", "{\"trial") >= 1; }));
  run.send(SIGHUP);
  const ProcessResult result = run.wait();
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("40 passed"));
}

TEST(Interrupts, WithoutAReportTheTableIsPrinted) {
  const ScratchFolder scratch;
  const std::string crumbs = scratch.file("crumbs");
  BackgroundProcess run(scratch, "run", run_that_hangs(crumbs));
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(crumbs + "/rank00000.crumbs"); }));
  run.send(SIGINT);
  const ProcessResult result = run.wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.out, HasSubstr("0 passed, 4 not run\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("continue")));
}

TEST(Interrupts, ABenchKeepsItsTimings) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string bench =
      "bench --case 'lens=9+7 vocab=[96,97]' --impl fused --min-samples 2 --target-stderr 1 ";
  BackgroundProcess run(scratch, "run",
                        with_executable(bench +
                                        "--max-seconds 0.1 --cache hot,cold "
                                        "--seeds 100 --report " +
                                        report));
  ASSERT_TRUE(wait_until([&] { return lines_with(report + ".partial.jsonl", "{\"timing") >= 2; }));
  run.send(SIGTERM);
  const ProcessResult result = run.wait();
  EXPECT_EQ(result.exit_code, 143) << result.out << result.err;
  const ordered_json left = report_at(report);
  EXPECT_EQ(left["run"]["status"], "partial");
  EXPECT_GE(left["timings"].size(), 2u);
  EXPECT_LT(left["timings"].size(), 400u);
  EXPECT_THAT(result.out, HasSubstr("continue: lossgrid bench "));
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
}

TEST(Interrupts, MutantsAndAbKeepTheirReports) {
  const ScratchFolder scratch;
  const std::string mutants = scratch.file("mutants.json");
  BackgroundProcess score(scratch, "mutants",
                          with_executable("mutants --suite smoke --report " + mutants));
  ASSERT_TRUE(wait_until([&] { return lines_with(mutants + ".partial.jsonl", "{\"mutant") >= 2; }));
  score.send(SIGTERM);
  const ProcessResult scored = score.wait();
  EXPECT_EQ(scored.exit_code, 143) << scored.err;
  EXPECT_THAT(scored.out, HasSubstr("interrupted: the mutants and controls behind these "));
  EXPECT_EQ(report_at(mutants)["run"]["status"], "partial");
  EXPECT_GE(report_at(mutants)["mutants"].size(), 2u);

  const std::string ab = scratch.file("ab.json");
  const std::string launches = scratch.file("tmp");  // folder of the reports of its launches
  std::filesystem::create_directory(launches);
  BackgroundProcess compared(
      scratch, "ab",
      "env TMPDIR=" + launches + " " +
          with_executable(
              "ab --case 'lens=9+7 vocab=96' --impl per_sequence,fused --max-seconds 30 "
              "--pairs 998 --report " +
              ab));
  ASSERT_TRUE(wait_until([&] { return !std::filesystem::is_empty(launches); }));
  compared.send(SIGINT);
  const ProcessResult result = compared.wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(report_at(ab)["run"]["status"], "partial");
  EXPECT_TRUE(std::filesystem::is_empty(launches));
  EXPECT_FALSE(std::filesystem::exists(ab + ".partial.jsonl"));
}

TEST(Interrupts, AReplayReportsTrialsThatDidNotRun) {
  const ScratchFolder scratch;
  const std::string bundle = scratch.file("b.safetensors");
  ASSERT_EQ(run_lossgrid(scratch, "export --case 'lens=2000 vocab=8000' --out " + bundle).exit_code,
            0);
  const std::string report = scratch.file("r.json");
  BackgroundProcess run(
      scratch, "run",
      with_executable("replay " + bundle + " --impl reference,fused --report " + report));
  ASSERT_TRUE(wait_until([&] { return lines_with(report + ".partial.jsonl", "\"run\"") == 1; }));
  run.send(SIGINT);
  const ProcessResult result = run.wait();
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  const ordered_json left = report_at(report);
  EXPECT_EQ(left["run"]["status"], "partial");
  ASSERT_EQ(left["trials"].size(), 2u);
  EXPECT_EQ(left["trials"][1]["status"], "not_run");
  EXPECT_EQ(left["trials"][1]["reason"], "interrupted");
}

}  // namespace
}  // namespace lossgrid
