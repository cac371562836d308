// SPDX-License-Identifier: Apache-2.0
// A run that died continues where it ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr const char* kSmoke = "run --suite smoke --impl fused,cp_local --grid tp1cp1,tp2cp2";

ordered_json trial_of(const ordered_json& report, const std::string& id) {
  for (const ordered_json& trial : report["trials"]) {
    if (trial["id"] == id) return trial;
  }
  return nullptr;
}

/// Runs kSmoke until rank 2 dies. Returns the lines of the partial file: the run and its finished
/// trials.
std::vector<ordered_json> die(const ScratchFolder& scratch, const std::string& report,
                              const std::string& more = "") {
  const ProcessResult died = run_lossgrid(
      scratch, std::string(kSmoke) + more + " --inject rank=2,call=1,kind=exit --report " + report);
  EXPECT_NE(died.exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(report));
  std::vector<ordered_json> lines;
  std::istringstream text(read_all(report + ".partial.jsonl"));
  for (std::string line; std::getline(text, line);) {
    const ordered_json parsed = ordered_json::parse(line);
    if (!parsed.contains("begin")) lines.push_back(parsed);
  }
  return lines;
}

TEST(Resume, RunsOnlyWhatADeadRunDidNotFinish) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::vector<ordered_json> left = die(scratch, report);
  ASSERT_EQ(left.size(), 2u);  // the run, and the only trial before a grid had rank 2
  const ordered_json first = full_report(report)["trials"][0];

  const ProcessResult resumed =
      run_lossgrid(scratch, std::string(kSmoke) + " --resume " + report + " --report " + report);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("24 passed"));
  const ordered_json whole = full_report(report);
  EXPECT_EQ(whole["run"]["status"], "complete");
  ASSERT_EQ(whole["trials"].size(), 24u);
  EXPECT_EQ(trial_of(whole, first["id"])["times"], first["times"]);  // not run again

  const std::string at_once = scratch.file("at_once.json");
  run_lossgrid(scratch, std::string(kSmoke) + " --report " + at_once);
  EXPECT_EQ(without_volatile_keys(whole)["trials"],
            without_volatile_keys(full_report(at_once))["trials"]);
}

TEST(Resume, AnotherCrashLosesNothing) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::vector<ordered_json> left = die(scratch, report);
  const std::vector<ordered_json> left_again = die(scratch, report, " --resume " + report);
  ASSERT_EQ(left.size(), 2u);
  ASSERT_EQ(left_again.size(), 2u);
  EXPECT_EQ(left_again[1], left[1]);
}

TEST(Resume, RerunsTrialsThatEndedByAnError) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult broken = run_lossgrid(
      scratch, std::string(kSmoke) + " --inject rank=2,call=1,kind=throw --report " + report);
  EXPECT_EQ(broken.exit_code, 14);
  const ordered_json before = full_report(report);
  const ProcessResult resumed =
      run_lossgrid(scratch, std::string(kSmoke) + " --resume " + report + " --report " + report);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out;
  const ordered_json after = full_report(report);
  for (const ordered_json& trial : before["trials"]) {
    const ordered_json now = trial_of(after, trial["id"]);
    EXPECT_EQ(now["status"], "passed");
    if (trial["status"] == "passed") {
      EXPECT_EQ(now["times"], trial["times"]);
    }
  }
}

TEST(Resume, TakesOverTimings) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const std::string bench =
      "bench --case 'lens=9+7 vocab=96' --impl fused --max-seconds 0.1 --cache ";
  ASSERT_EQ(run_lossgrid(scratch, bench + "hot --report " + report).exit_code, 0);
  const std::string both = scratch.file("both.json");
  ASSERT_EQ(
      run_lossgrid(scratch, bench + "hot,cold --resume " + report + " --report " + both).exit_code,
      0);
  const ordered_json timings = full_report(both)["timings"];
  ASSERT_EQ(timings.size(), 2u);
  EXPECT_EQ(timings[0], full_report(report)["timings"][0]);
  EXPECT_EQ(timings[1]["cache"], "cold");
}

TEST(Resume, RefusesWhatIsNotItsOwn) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const auto refused = [&](const std::string& arguments) {
    const ProcessResult result = run_lossgrid(scratch, arguments + " --resume " + report);
    EXPECT_EQ(result.exit_code, 65) << arguments;
    return result.err;
  };
  EXPECT_THAT(refused(kSmoke), HasSubstr("--resume: "));  // there is no report
  ASSERT_EQ(run_lossgrid(scratch,
                         "bench --case 'lens=4 vocab=9' --impl fused --max-seconds 0.01 "
                         "--report " +
                             report)
                .exit_code,
            0);
  EXPECT_THAT(refused(kSmoke), HasSubstr("r.json: it is the report of lossgrid bench"));
  ASSERT_EQ(run_lossgrid(scratch, std::string(kSmoke) + " --report " + report).exit_code, 0);
  ordered_json other = full_report(report);
  other["environment"]["tool"]["git_revision"] = "0000000";
  write_all(report, other.dump());
  EXPECT_THAT(refused(kSmoke), HasSubstr("r.json: another build made it"));
  write_all(report, "not a report");
  EXPECT_THAT(refused(kSmoke), HasSubstr("r.json: it is no JSON"));
}

}  // namespace
}  // namespace lossgrid
