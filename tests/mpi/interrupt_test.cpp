// SPDX-License-Identifier: Apache-2.0
// An interrupt of processes under a launcher: the report is there and no process hangs, whichever
// gets the signal.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Open MPI kills processes a second after the signal to end; a busy machine may take longer.
constexpr const char* kPatientLauncher = "env OMPI_MCA_odls_base_sigkill_timeout=5";

std::string job(const std::string& arguments) {
  return fmt::format("{} '{}' {} 4 '{}' {}", kPatientLauncher, LOSSGRID_MPIEXEC,
                     LOSSGRID_MPIEXEC_NUMPROC_FLAG, LOSSGRID_EXECUTABLE, arguments);
}

constexpr const char* kTrialsOfJob =
    "run --case 'lens=5+8 vocab=96' --impl fused,cp_local --grid tp1cp1,tp2cp2 ";

std::vector<std::string> statuses_of(const std::string& report) {
  std::vector<std::string> statuses;
  const ordered_json found = ordered_json::parse(read_all(report));
  for (const ordered_json& trial : found["trials"]) statuses.push_back(trial["status"]);
  return statuses;
}

class InterruptedJob : public testing::TestWithParam<int> {};

TEST_P(InterruptedJob, LeavesAReportThatGoesOn) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  BackgroundProcess launcher(
      scratch, "job",
      job(std::string(kTrialsOfJob) + "--inject rank=2,at=forward,trial=2,kind=hang --report " +
          report));
  ASSERT_TRUE(wait_until([&] { return lines_with(report + ".partial.jsonl", "begin") == 2; }));
  launcher.send(GetParam());
  const ProcessResult result = launcher.wait();
  EXPECT_GT(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(statuses_of(report), ElementsAre("passed", "not_run", "not_run", "not_run"));
  EXPECT_THAT(result.out, HasSubstr("1 passed, 3 not run\n"));
  EXPECT_THAT(result.out, HasSubstr("continue: lossgrid run "));
  EXPECT_FALSE(std::filesystem::exists(report + ".partial.jsonl"));

  const std::string whole = scratch.file("whole.json");
  const ProcessResult resumed = run_executable(
      scratch, "/bin/sh",
      "-c \"" + job(kTrialsOfJob + ("--resume " + report) + " --report " + whole) + "\"");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(statuses_of(whole), ElementsAre("passed", "passed", "passed", "passed"));
}

INSTANTIATE_TEST_SUITE_P(Signals, InterruptedJob, testing::Values(SIGINT, SIGTERM),
                         [](const auto& of) { return of.param == SIGINT ? "SIGINT" : "SIGTERM"; });

// A signal for one rank alone, which neither prints nor writes: the job ends all the same.
TEST(InterruptOfOneRank, EndsTheJobWithAReport) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string crumbs = scratch.file("pids");
  std::filesystem::create_directory(crumbs);
  const std::string wrapped = fmt::format(
      "{} '{}' {} 2 sh -c 'echo $$ >{}/$OMPI_COMM_WORLD_RANK$PMI_RANK; exec \"$0\" \"$@\"' '{}' "
      "run "
      "--case 'lens=5+8 vocab=96' --impl fused --grid tp1cp1,tp2cp1 --inject "
      "rank=0,at=forward,trial=2,kind=hang --report {}",
      kPatientLauncher, LOSSGRID_MPIEXEC, LOSSGRID_MPIEXEC_NUMPROC_FLAG, crumbs,
      LOSSGRID_EXECUTABLE, report);
  BackgroundProcess launcher(scratch, "job", wrapped);
  ASSERT_TRUE(wait_until([&] { return lines_with(report + ".partial.jsonl", "begin") == 2; }));
  ::kill(std::stoi(read_all(crumbs + "/1")), SIGTERM);
  const ProcessResult result = launcher.wait();
  EXPECT_GT(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(statuses_of(report), ElementsAre("passed", "not_run"));
}

TEST(JobsWithOneReport, AgreeThatItIsTaken) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  BackgroundProcess first(scratch, "first",
                          fmt::format("'{}' run --case 'lens=5 vocab=24' --impl fused --inject "
                                      "rank=0,at=forward,kind=hang --report {}",
                                      LOSSGRID_EXECUTABLE, report));
  ASSERT_TRUE(wait_until([&] { return lines_with(report + ".partial.jsonl", "begin") == 1; }));
  BackgroundProcess second(scratch, "second", job(kTrialsOfJob + ("--report " + report)));
  const ProcessResult refused = second.wait();
  EXPECT_EQ(refused.exit_code, 65);
  EXPECT_THAT(refused.err, HasSubstr("r.json.partial.jsonl: another process writes it\n"));
}

}  // namespace
}  // namespace lossgrid
