// SPDX-License-Identifier: Apache-2.0
// run --supervise: if a launch dies, the report exists and names the trial that died, and all other
// trials ran.
#include <chrono>
#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTrials =
    "run --case 'lens=5+8 vocab=96' --impl fused,cp_local --grid tp1cp1,tp2cp2 ";

std::vector<std::string> statuses_in(const ordered_json& report) {
  std::vector<std::string> statuses;
  for (const ordered_json& trial : report["trials"]) statuses.push_back(trial["status"]);
  return statuses;
}

struct Death {
  std::string kind;
  std::string end;

  friend void PrintTo(const Death& death, std::ostream* out) { *out << death.kind; }
};

class Supervised : public testing::TestWithParam<Death> {};

TEST_P(Supervised, ADeadTrialIsNamedAndTheOthersRun) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, fmt::format("{} --supervise --inject rank=2,at=forward,trial=2,kind={} --report {}",
                           kTrials, GetParam().kind, report));
  EXPECT_EQ(result.exit_code, 14) << result.err;
  EXPECT_THAT(result.out, HasSubstr("launch 1: 2 of 4 done; the process ended with " +
                                    GetParam().end + "\nlaunch 2: 4 of 4 done\n"));
  EXPECT_THAT(result.out, HasSubstr("3 passed, 1 crashed"));
  const ordered_json whole = full_report(report);
  EXPECT_EQ(whole["run"]["status"], "complete");
  EXPECT_EQ(whole["run"]["exit_code"], 14);
  EXPECT_THAT(statuses_in(whole), ElementsAre("passed", "crashed", "passed", "passed"));
  const ordered_json& dead = whole["trials"][1];
  EXPECT_EQ(dead["reason"], "the process ended with " + GetParam().end);
  ASSERT_EQ(dead["rank_states"].size(), 4u);  // from the flight recorder of each rank
  EXPECT_EQ(dead["rank_states"][2]["phase"], "forward");
  EXPECT_FALSE(std::filesystem::exists(report + ".launch.json.partial.jsonl"));

  // A later run runs the missing trials only.
  const ProcessResult resumed =
      run_lossgrid(scratch, fmt::format("{} --resume {} --report {}", kTrials, report, report));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  const ordered_json now = full_report(report);
  EXPECT_THAT(statuses_in(now), ElementsAre("passed", "passed", "passed", "passed"));
  EXPECT_EQ(now["trials"][0]["times"], whole["trials"][0]["times"]);
}

INSTANTIATE_TEST_SUITE_P(Deaths, Supervised,
                         testing::Values(Death{"exit", "exit code 3"},
                                         Death{"kill", "signal 9 (SIGKILL)"},
                                         Death{"segv", "signal 11 (SIGSEGV)"}),
                         [](const auto& of) { return of.param.kind; });

TEST(Supervise, EndsAfterAsManyLaunchesAsAsked) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, std::string(kTrials) +
                   "--supervise --max-launches 1 --inject rank=0,at=plan,trial=2,kind=kill "
                   "--report " +
                   report);
  EXPECT_EQ(result.exit_code, 14);
  const ordered_json left = full_report(report);
  EXPECT_EQ(left["run"]["status"], "partial");
  EXPECT_THAT(statuses_in(left), ElementsAre("passed", "crashed", "not_run", "not_run"));
  EXPECT_EQ(left["trials"][2]["reason"], "not reached with --max-launches 1");

  // Another supervisor takes over, with one launch for each grid; crashed trials run again.
  const std::string whole = scratch.file("whole.json");
  const ProcessResult resumed =
      run_lossgrid(scratch, fmt::format("{} --supervise --launches grid --resume {} --report {}",
                                        kTrials, report, whole));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("launch 1 (tp1cp1): 2 of 4 done\n"));
  EXPECT_THAT(resumed.out, HasSubstr("launch 2 (tp2cp2): 4 of 4 done\n"));
  const std::string at_once = scratch.file("at_once.json");
  run_lossgrid(scratch, std::string(kTrials) + "--report " + at_once);
  EXPECT_EQ(without_volatile_keys(full_report(whole))["trials"],
            without_volatile_keys(full_report(at_once))["trials"]);
}

TEST(Supervise, GoesOnBehindARankThatHangs) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, std::string(kTrials) +
                   "--supervise --timeout 2 --inject rank=1,at=forward,trial=2,kind=hang "
                   "--report " +
                   report);
  EXPECT_EQ(result.exit_code, 15) << result.out << result.err;
  EXPECT_THAT(statuses_in(full_report(report)),
              ElementsAre("passed", "timeout", "passed", "passed"));
}

TEST(Supervise, EndsALaunchThatTakesTooLong) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, std::string(kTrials) +
                   "--supervise --launch-timeout 3 --inject rank=1,at=forward,trial=2,kind=hang "
                   "--report " +
                   report);
  EXPECT_EQ(result.exit_code, 15) << result.out << result.err;
  const ordered_json whole = full_report(report);
  EXPECT_THAT(statuses_in(whole), ElementsAre("passed", "timeout", "passed", "passed"));
  EXPECT_EQ(whole["trials"][1]["reason"], "the launch took longer than 3 s");
}

TEST(Supervise, ReportsALauncherThatDoesNotStart) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result = run_lossgrid(
      scratch, std::string(kTrials) + "--supervise --launch no_such_launcher --report " + report);
  EXPECT_EQ(result.exit_code, 14);
  EXPECT_THAT(result.err,
              HasSubstr("a launch got no further: the launcher ended with exit code 127"));
  EXPECT_THAT(statuses_in(full_report(report)),
              ElementsAre("not_run", "not_run", "not_run", "not_run"));
}

TEST(Supervise, AnInterruptEndsItWithAReport) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  // The shell's child gets the signal once the second trial hangs.
  const std::string script = fmt::format(
      "'{}' {} --supervise --inject rank=1,at=forward,trial=2,kind=hang --report {} & pid=$!; "
      "until grep -qs begin.*tp2cp2 {}.launch.json.partial.jsonl; do sleep 0.05; done; "
      "kill -TERM $pid; wait $pid",
      LOSSGRID_EXECUTABLE, kTrials, report, report);
  const std::string file = scratch.file("script");
  write_all(file, script);
  const ProcessResult result = run_executable(scratch, "/bin/sh", file);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  const ordered_json left = full_report(report);
  EXPECT_EQ(left["run"]["status"], "partial");
  EXPECT_THAT(statuses_in(left), ElementsAre("passed", "not_run", "not_run", "not_run"));
  EXPECT_EQ(left["trials"][1]["reason"], "interrupted");
}

TEST(Supervise, ShowsWhatItWouldLaunch) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(
      scratch,
      std::string(kTrials) +
          "--supervise --dry-run --launches=grid --launch 'srun -n {ranks}' --report r.json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string line = std::string(LOSSGRID_EXECUTABLE) +
                           " run --case 'lens=5+8 vocab=96' --impl fused,cp_local --grid ";
  EXPECT_EQ(result.out, "srun -n 1 " + line + "tp1cp1 --report r.json.launch.json --quiet\n" +
                            "srun -n 4 " + line + "tp2cp2 --report r.json.launch.json --quiet\n");
  EXPECT_FALSE(std::filesystem::exists("r.json"));
}

TEST(Supervise, RefusesWhatMakesNoSense) {
  const ScratchFolder scratch;
  for (const auto& [flags, message] : std::vector<std::pair<std::string, std::string>>{
           {"--supervise", "--supervise needs --report"},
           {"--launch mpirun", "need --supervise"},
           {"--dry-run", "need --supervise"},
           {"--supervise --report r.json --launches two", "--launches"},
           {"--supervise --report r.json --stop-at-failure", "does not go with --supervise"}}) {
    const ProcessResult result = run_lossgrid(scratch, std::string(kTrials) + flags);
    EXPECT_EQ(result.exit_code, 64) << flags;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

TEST(Sweep, SetsWhatTheLauncherNeeds) {
  const ScratchFolder scratch;
  const auto sweep = [&](const std::string& arguments) {
    write_all(scratch.file("script"), fmt::format("LOSSGRID='{}' scripts/sweep --dry-run {}",
                                                  LOSSGRID_EXECUTABLE, arguments));
    return run_executable(scratch, "/bin/sh", scratch.file("script"));
  };
  const std::string trials = " -- --case lens=5 --impl fused --grid tp2cp2,tp8cp1 --report r.json";
  const std::string rest = std::string(LOSSGRID_EXECUTABLE) +
                           " run --case lens=5 --impl fused --grid tp2cp2,tp8cp1 --report "
                           "r.json.launch.json --quiet\n";
  const ProcessResult slurm = sweep("--launcher srun --launcher-arg --mpi=pmix" + trials);
  EXPECT_EQ(slurm.exit_code, 0) << slurm.err;
  EXPECT_THAT(slurm.out, HasSubstr("\nsrun --ntasks=8 --kill-on-bad-exit=1 --mpi=pmix " + rest));
  const ProcessResult threads = sweep("--launcher none" + trials);
  EXPECT_THAT(threads.out, HasSubstr("\n" + rest));
  EXPECT_EQ(sweep("--launcher prun" + trials).exit_code, 64);
  EXPECT_EQ(sweep("--per-gird" + trials).exit_code, 64);
}

}  // namespace
}  // namespace lossgrid
