// SPDX-License-Identifier: Apache-2.0
// Tests of `lossgrid gate`, `schema` and `validate` on the report of a real run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "full_report.h"
#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr const char* kExact = " --policy reports/policies/exact.json";

class GateCommand : public testing::Test {
 protected:
  void SetUp() override {
    run("run --case 'lens=5+8 vocab=24' --impl fused,cp_local --grid tp1cp1,tp2cp2 --report " +
        file("base.json"));
  }
  ProcessResult run(const std::string& arguments) { return run_lossgrid(scratch_, arguments); }
  std::string file(const std::string& name) const { return scratch_.file(name); }
  void write_policy(const std::string& rules, const std::string& issues = "") {
    write_all(file("policy.json"), R"({"schema": "lossgrid.policy/1", "rules": [)" + rules +
                                       R"(], "known_issues": [)" + issues + "]}");
  }

 private:
  ScratchFolder scratch_;
};

TEST_F(GateCommand, JudgesByThePolicy) {
  const std::string base = file("base.json");
  const ProcessResult same = run("gate " + base + " " + base + kExact + " --strict");
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("0 failed, 0 inconclusive, 0 excused; "));

  ordered_json grown = full_report(base);
  ordered_json& calls = grown["trials"][1]["communication"][0]["measured_calls"];
  calls = 2 * calls.get<std::int64_t>();
  const std::string head = file("grown.json");
  write_all(head, grown.dump());
  const ProcessResult worse = run("gate " + base + " " + head + kExact);
  EXPECT_EQ(worse.exit_code, 12) << worse.err;
  EXPECT_THAT(worse.out, HasSubstr("failed  calls "));
  EXPECT_EQ(run("gate " + base + " " + head + " --policy exact").out, worse.out);
  EXPECT_EQ(run("gate " + head + " " + base + kExact).exit_code, 0);

  const std::string rule = R"({"metric": "calls", "tolerance_ratio": 0})";
  write_policy(rule, R"({"until": "9999-12-31", "reason": "issue 12", "metric": "calls"})");
  const std::string with_policy = " --policy " + file("policy.json");
  const ProcessResult excused = run("gate " + base + " " + head + with_policy + " --strict" +
                                    " --format json --out " + file("gate.json"));
  EXPECT_EQ(excused.exit_code, 0) << excused.err;
  EXPECT_EQ(ordered_json::parse(read_all(file("gate.json")))["counts"]["excused"], 1);

  write_policy(rule, R"({"until": "2000-01-31", "reason": "issue 12"})");
  const ProcessResult expired = run("gate " + base + " " + base + with_policy);
  EXPECT_EQ(expired.exit_code, 0);
  EXPECT_THAT(expired.out, HasSubstr("note: known issue 0 expired on 2000-01-31 and excuses "
                                     "nothing: issue 12\n"));
  EXPECT_EQ(run("gate " + base + " " + base + with_policy + " --strict").exit_code, 13);

  const ProcessResult alone = run("gate " + head + with_policy);
  EXPECT_EQ(alone.exit_code, 64);
  EXPECT_EQ(alone.err, "lossgrid: rule 0 (calls) has a tolerance_ratio, which needs BASE\n");
  write_policy(R"({"metric": "error_ratio", "limit": 1e-9})");
  EXPECT_EQ(run("gate " + head + with_policy + " --format markdown").exit_code, 10);
  write_policy(R"({"metric": "speed", "limit": 1})");
  const ProcessResult unknown = run("gate " + head + with_policy);
  EXPECT_EQ(unknown.exit_code, 65);
  EXPECT_THAT(unknown.err, HasSubstr("policy.json: /rules/0/metric: "));
  EXPECT_EQ(run("gate " + base).exit_code, 64);
}

TEST_F(GateCommand, ReportsAndPoliciesCanBeValidated) {
  const std::string base = file("base.json");
  EXPECT_EQ(ordered_json::parse(run("schema").out)["$id"], "urn:lossgrid:report-1");
  EXPECT_EQ(ordered_json::parse(run("schema policy").out)["$id"], "urn:lossgrid:policy-1");
  EXPECT_EQ(run("schema polcy").exit_code, 64);

  const ProcessResult valid = run("validate " + base + " reports/policies/exact.json");
  EXPECT_EQ(valid.exit_code, 0) << valid.err;
  EXPECT_EQ(valid.out, base +
                           ": valid lossgrid.report/1\n"
                           "reports/policies/exact.json: valid lossgrid.policy/1\n");
  ordered_json broken = full_report(base);
  broken["trials"][0]["grid"].erase("tp");
  write_all(file("broken.json"), broken.dump());
  const ProcessResult wrong = run("validate " + file("broken.json") + " " + base);
  EXPECT_EQ(wrong.exit_code, 65);
  EXPECT_EQ(wrong.err, "lossgrid: " + file("broken.json") +
                           ": /trials/0/grid: Missing required property 'tp'.\n");
  broken["schema"] = "lossgrid.report/2";
  write_all(file("newer.json"), broken.dump());
  EXPECT_EQ(run("validate " + file("newer.json")).exit_code, 65);
  const ProcessResult newer = run("compare " + base + " " + file("newer.json"));
  EXPECT_EQ(newer.exit_code, 65);
  EXPECT_THAT(newer.err,
              HasSubstr("it has version 2 of the format, this lossgrid reads version 1 alone"));
}

}  // namespace
}  // namespace lossgrid
