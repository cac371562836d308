// SPDX-License-Identifier: Apache-2.0
// Machines as a user sees them: plans with times, searches, calibrations, predicted times beside
// measured ones, and one line for each refusal.
#include <algorithm>
#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLogits = "--case 'lens=4096+8192 vocab=151936 dtype=bf16' ";

TEST(Machines, AreListedAndAreNoSuite) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, "list machines");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* name : {"H100-SXM", "H200-SXM", "GB200-NVL72"}) {
    EXPECT_THAT(result.out, HasSubstr(name));
  }
  EXPECT_THAT(result.out, HasSubstr("not measured"));
  EXPECT_THAT(run_lossgrid(scratch, "list suites").out, Not(HasSubstr("\nmachines")));
}

TEST(Machines, APlanHasTimesByPhaseAndCollective) {
  const ScratchFolder scratch;
  const std::string path = scratch.file("plan.json");
  const ProcessResult result =
      run_lossgrid(scratch, std::string("plan ") + kLogits +
                                "--machine H100-SXM --grid tp8cp2 --impl fused --json " + path);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("stated by its maker"));
  EXPECT_THAT(result.out, HasSubstr("bound by"));
  EXPECT_THAT(result.out, HasSubstr("tp of 8"));
  const json time = json::parse(read_all(path))["plans"][0]["rows"][0]["time"];
  EXPECT_EQ(time["bound_by"], "memory");
  EXPECT_EQ(time["collectives"].size(), 2u);
  const std::int64_t forward = time["forward"]["time_ns"];
  EXPECT_GT(forward, 0);
  EXPECT_NEAR(time["time_ns"], forward + std::int64_t{time["backward"]["time_ns"]}, 1);
}

TEST(Machines, ASearchIsATableAndAFileForPageAndSweep) {
  const ScratchFolder scratch;
  const std::string path = scratch.file("search.json");
  const ProcessResult result = run_lossgrid(
      scratch, std::string("plan ") + kLogits +
                   "--machine H100-SXM --search --ranks 16 --memory 1GiB --json " + path);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("one_sweep"));
  EXPECT_THAT(result.out, HasSubstr("fit 1.0 GiB a rank"));
  const json search = json::parse(read_all(path));
  EXPECT_EQ(search["schema"], "lossgrid.search/1");
  EXPECT_EQ(search["plans"][0]["fits"], true);
  EXPECT_EQ(search["plans"].back()["fits"], false);

  const std::string report = scratch.file("report.json");
  run_lossgrid(scratch, "run --case 'lens=5+8 vocab=24' --impl fused --report " + report);
  const ProcessResult page = run_lossgrid(scratch, "html " + report + " --search " + path);
  EXPECT_EQ(page.exit_code, 0) << page.err;
  const ProcessResult wrong = run_lossgrid(scratch, "html " + report + " --search " + report);
  EXPECT_EQ(wrong.exit_code, 65);
  EXPECT_THAT(wrong.err, HasSubstr("not a search of lossgrid plan --search --json"));

  write_all(scratch.file("script"), "LOSSGRID='" LOSSGRID_EXECUTABLE
                                    "' scripts/sweep --launcher none --dry-run --plan " +
                                        path + " --plan-grids 2\n");
  const ProcessResult sweep = run_executable(scratch, "/bin/bash", scratch.file("script"));
  EXPECT_EQ(sweep.exit_code, 0) << sweep.err;
  EXPECT_THAT(sweep.out, HasSubstr("lens=4096+8192"));
  EXPECT_THAT(sweep.out, HasSubstr("--grid tp"));
}

TEST(Machines, CalibrationsPredictBesideMeasurements) {
  const ScratchFolder scratch;
  const std::string machine = scratch.file("machine.json");
  const ProcessResult measured = run_lossgrid(
      scratch, "calibrate --memory 8MiB --max-seconds 0.05 --name mine --out " + machine);
  ASSERT_EQ(measured.exit_code, 0) << measured.out << measured.err;
  const json entry = json::parse(read_all(machine))["entries"][0];
  EXPECT_EQ(entry["name"], "mine");
  EXPECT_EQ(entry["measured"], true);
  EXPECT_GT(entry["cores"], 0);
  EXPECT_EQ(entry["transports"][0]["name"], "thread");

  const std::string report = scratch.file("report.json");
  const ProcessResult timed = run_lossgrid(
      scratch,
      "run --mode verify,bench --case 'lens=64+64 vocab=512' --impl fused --grid tp2cp1 "
      "--max-seconds 0.1 --machine " +
          machine + " --report " + report);
  EXPECT_EQ(timed.exit_code, 0) << timed.out << timed.err;
  EXPECT_THAT(timed.out, HasSubstr("predicted ms"));
  EXPECT_THAT(timed.out, HasSubstr("predicted / run"));
  const json found = json::parse(read_all(report));
  EXPECT_EQ(found["environment"]["machine"], "mine");
  for (const json& row : found["timings"][0]["rows"]) {
    EXPECT_GT(row["predicted"]["time_ns"], 0) << row;
    EXPECT_GT(row["predicted"]["collectives_ns"], row["phase"] == "backward" ? -1 : 0) << row;
  }
  EXPECT_FALSE(found["trials"][0]["times"][0].contains("predicted_ns"));  // a plan
  EXPECT_GT(found["trials"][0]["times"][1]["predicted_ns"], 0);
  EXPECT_EQ(run_lossgrid(scratch, "validate " + report).exit_code, 0);
}

struct RefusedMachine {
  const char* arguments;
  int exit_code;
  const char* message;
};

void PrintTo(const RefusedMachine& refused, std::ostream* out) {
  *out << refused.arguments;
}

class RefusedMachines : public ::testing::TestWithParam<RefusedMachine> {};

TEST_P(RefusedMachines, OneLineAndTheRightCode) {
  const ScratchFolder scratch;
  const ProcessResult result = run_lossgrid(scratch, GetParam().arguments);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().message));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedMachines,
    ::testing::Values(
        RefusedMachine{"plan --case lens=8 --machine H100-SMX", 65, "did you mean 'H100-SXM'"},
        RefusedMachine{"plan --case lens=8 --machine nowhere/m.json", 65, "nowhere/m.json"},
        RefusedMachine{"plan --case lens=8 --machine H100-SXM --transport mpi", 65, "mpi"},
        RefusedMachine{"plan --case lens=8 --search", 64, "--search needs --machine"},
        RefusedMachine{"plan --case lens=8 --machine H100-SXM --search --grid tp2", 64, "--grid"},
        RefusedMachine{"plan --case lens=8 --machine H100-SXM --search --fit 1GiB", 64, "--fit"},
        RefusedMachine{"plan --case lens=[8,9] --machine H100-SXM --search", 64, "one case"},
        RefusedMachine{"plan --case lens=8 --machine H100-SXM --search --memory 3X", 65,
                       "--memory = '3X' is no number of bytes"},
        RefusedMachine{"plan --case lens=8 --machine H100-SXM --search --ranks 0", 64, "--ranks"},
        RefusedMachine{"run --case lens=8 --machine H100-SXM", 65, "thread"},
        RefusedMachine{"calibrate --max-seconds 0", 64, "--max-seconds"},
        RefusedMachine{"calibrate --memory none", 65, "--memory = 'none'"},
        RefusedMachine{"calibrate --out /proc/nowhere/x.json", 65, "/proc/nowhere"}));

}  // namespace
}  // namespace lossgrid
