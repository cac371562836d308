// SPDX-License-Identifier: Apache-2.0
// Tests of `lossgrid compare` on reports of real runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr const char* kRun = "run --case 'lens=5+8 vocab=96' --impl fused,cp_local --grid ";

class CompareCommand : public testing::Test {
 protected:
  /// Runs and returns the path of the report.
  std::string report(const std::string& name, const std::string& more = "tp1cp1,tp2cp2") {
    const std::string path = scratch_.file(name);
    run_lossgrid(scratch_, kRun + more + " --report " + path);
    EXPECT_TRUE(std::filesystem::exists(path));
    return path;
  }
  ProcessResult compare(const std::string& arguments) {
    return run_lossgrid(scratch_, "compare " + arguments);
  }
  std::string file(const std::string& name) const { return scratch_.file(name); }

 private:
  ScratchFolder scratch_;
};

TEST_F(CompareCommand, FindsNothingBetweenTwoRunsOfTheSame) {
  const ProcessResult result = compare(report("a.json") + " " + report("b.json") + " --strict");
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(
      result.out,
      "4 trials and 0 timed rows in both: 0 regressed, 0 inconclusive, 0 improved, 0 added\n");
}

TEST_F(CompareCommand, FailsForAWrongTrialAndForAMissingOne) {
  const std::string base = report("base.json");
  const std::string wrong =
      report("wrong.json", "tp1cp1,tp2cp2 --inject rank=1,at=backward,trial=2,kind=nan");
  const ProcessResult worse = compare(base + " " + wrong);
  EXPECT_EQ(worse.exit_code, 10);
  EXPECT_THAT(worse.out, HasSubstr("regressed  verdict  status  passed  failed: grad_logits"));
  EXPECT_EQ(compare(wrong + " " + base).exit_code, 0);

  const ProcessResult fewer = compare(base + " " + report("fewer.json", "tp1cp1"));
  EXPECT_EQ(fewer.exit_code, 10);
  EXPECT_THAT(fewer.out, HasSubstr("regressed  coverage  status  passed  not there"));
}

TEST_F(CompareCommand, FailsForAByteMore) {
  const std::string base = report("base.json");
  ordered_json grown = full_report(base);
  ordered_json& bytes = grown["trials"][1]["memory"][0]["measured_peak_bytes"];
  bytes = bytes.get<std::int64_t>() + 1;
  write_all(file("grown.json"), grown.dump());
  const std::string out = file("comparison.json");
  const ProcessResult result =
      compare(base + " " + file("grown.json") + " --format json --out " + out);
  EXPECT_EQ(result.exit_code, 12) << result.err;
  const ordered_json json = ordered_json::parse(read_all(out));
  EXPECT_EQ(json["counts"]["regressed"], 1);
  EXPECT_EQ(json["changes"][0]["kind"], "memory");
  EXPECT_EQ(compare(file("grown.json") + " " + base).exit_code, 0);
}

TEST_F(CompareCommand, ComparesWhatADeadRunLeft) {
  const std::string base = report("base.json");
  const std::string dead = file("dead.json");
  ScratchFolder scratch;
  run_lossgrid(scratch, std::string(kRun) +
                            "tp1cp1,tp2cp2 --inject rank=1,at=plan,trial=2,kind=kill --report " +
                            dead);
  const ProcessResult result = compare(base + " " + dead);
  EXPECT_EQ(result.exit_code, 14) << result.err;
  EXPECT_EQ(
      result.out,
      "HEAD did not come to its end, dead in the middle of lens=5+8 "
      "vocab=96|tp2cp2|fused|cpu: 3 trials and 0 timed rows of BASE were not reached\n"
      "1 trials and 0 timed rows in both: 0 regressed, 0 inconclusive, 0 improved, 0 added\n");
  // As BASE, an incomplete run is compared up to its end.
  const ProcessResult back = compare(dead + " " + base);
  EXPECT_EQ(back.exit_code, 0) << back.out;
  EXPECT_THAT(back.out, HasSubstr("note: BASE did not come to its end"));
}

TEST_F(CompareCommand, AHeadThatHungIsAHang) {
  const std::string base = report("base.json");
  const std::string hung =
      report("hung.json", "tp1cp1,tp2cp2 --timeout 0.5 --inject rank=1,at=plan,trial=2,kind=hang");
  const ProcessResult result = compare(base + " " + hung);
  EXPECT_EQ(result.exit_code, 15) << result.out;
  EXPECT_THAT(result.out, HasSubstr("HEAD did not come to its end, a rank hung in lens=5+8 "
                                    "vocab=96|tp2cp2|fused|cpu: 2 trials"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("coverage")));
}

TEST_F(CompareCommand, NotesAnotherMachineAndFailuresInBoth) {
  const std::string wrong =
      report("wrong.json", "tp1cp1,tp2cp2 --inject rank=1,at=backward,trial=2,kind=nan");
  ordered_json other = ordered_json::parse(read_all(wrong));
  other["environment"]["host"]["cpu_model"] = "another one";
  write_all(file("other.json"), other.dump());
  const ProcessResult result = compare(wrong + " " + file("other.json"));
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("note: the machines differ: CPU model ("));
  EXPECT_THAT(result.out, HasSubstr("another one in HEAD)"));
  EXPECT_THAT(result.out, HasSubstr("note: 1 trial fails in both reports"));
}

TEST_F(CompareCommand, RefusesReportsThatCannotBeCompared) {
  const std::string base = report("base.json", "tp1cp1");
  const ProcessResult nothing = compare(base + " " + report("other.json", "tp2cp1"));
  EXPECT_EQ(nothing.exit_code, 65);
  EXPECT_THAT(nothing.err, HasSubstr("no trial and no timed row in common"));
  EXPECT_EQ(compare(base + " " + file("missing.json")).exit_code, 65);
  EXPECT_EQ(compare(base).exit_code, 64);
  EXPECT_EQ(compare(base + " " + base + " --format pdf").exit_code, 64);
}

}  // namespace
}  // namespace lossgrid
