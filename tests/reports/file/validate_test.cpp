// SPDX-License-Identifier: Apache-2.0
// Checks of reports as `lossgrid validate` makes them: places and rules, and files of all kinds.
#include "reports/file/validate.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "full_report.h"
#include "harness/core/error.h"
#include "harness/core/file.h"
#include "reports/file/report_json.h"
#include "reports/file/report_writer.h"
#include "reports/file/schema.h"
#include "sample_run.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// Calls `visit` for every schema of a property in `schema`.
void for_each_property(const Json& schema, const std::function<void(const Json&)>& visit) {
  if (!schema.is_structured()) return;
  for (const auto& [key, value] : schema.items()) {
    const bool is_rule = key == "if" || key == "then" || key == "else" || key == "allOf";
    if (is_rule || key == "defaults" || key == "shared") continue;
    if (key == "properties" && value.is_object()) {
      for (const Json& property : value) visit(property);
    }
    for_each_property(value, visit);
  }
}

TEST(Schema, DescribesEveryProperty) {
  const Json report = Json::parse(schema_text("report"));
  EXPECT_EQ(report["$id"], "urn:lossgrid:report-1");
  EXPECT_EQ(report["$defs"]["check"]["properties"]["compared"]["type"], "integer");
  int properties = 0;
  for_each_property(report, [&](const Json& property) {
    ++properties;
    EXPECT_TRUE(property.value("description", "").ends_with('.') ||
                property.value("description", "").ends_with("..."))
        << property;
  });
  EXPECT_GT(properties, 150);
  EXPECT_EQ(Json::parse(schema_text("policy"))["$id"], "urn:lossgrid:policy-1");
  EXPECT_THROW(schema_text("repord"), Error);
}

TEST(Validate, TakesWhatIsWritten) {
  RunRecord cut_short = sample_run();
  for (const TrialStatus status : trial_statuses()) {
    cut_short.trials.push_back(sample_cut_short(status));
  }
  for (const RunRecord& run : {sample_run(), sample_mutants_run(), sample_bench_run(), cut_short}) {
    EXPECT_THAT(schema_problems("report", full_report(run)), IsEmpty()) << run.command;
  }
}

TEST(Validate, NamesPlaceAndRule) {
  struct Row {
    std::function<void(Json&)> change;
    std::string problem;
  };
  for (const Row& row : std::vector<Row>{
           {[](Json& r) { r["trials"][0].erase("id"); },
            "/trials/0: Missing required property 'id'."},
           {[](Json& r) { r.erase("run"); }, "/: Missing required property 'run'."},
           {[](Json& r) { r["trials"][1]["grid"]["tp"] = "2"; },
            "/trials/1/grid/tp: Value type not permitted by 'type' constraint. It is \"2\"."},
           {[](Json& r) { r["trials"][0]["memory"][0]["measured_peak_bytes"] = 0.5; },
            "/trials/0/memory/0/measured_peak_bytes: Value type"},
           {[](Json& r) { r["trials"][0]["status"] = "ok"; },
            "/trials/0/status: Failed to match against any enum values. It is \"ok\"."},
           {[](Json& r) { r["trials"][1]["reason"] = ""; },
            "/trials/1/reason: String should be no fewer than 1 characters"},
           {[](Json& r) { r["trials"][2]["checks"][1]["passed"] = true; },
            "/trials/2/checks/1/passed: Failed to match expected value set by 'const'"},
           {[](Json& r) { r["trials"][0]["branches"]["unclipped"] = 1.5; },
            "/trials/0/branches/unclipped: Expected number less than or equal to 1"},
           {[](Json& r) {
              r["run"]["command"] = "mutants";
              r["mutants"] = Json::array();
            },
            "/: Missing required property 'score'."},
           {[](Json& r) { r["run"]["started_utc"] = "yesterday"; },
            "/run/started_utc: Failed to match regex"}}) {
    Json report = full_report(sample_run());
    row.change(report);
    EXPECT_THAT(schema_problems("report", report), ElementsAre(StartsWith(row.problem)));
  }
}

/// Message of the error that validate_file throws.
std::string refusal(const std::string& path) {
  try {
    validate_file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(ValidateFile, TakesWhatADeadRunLeft) {
  const TemporaryFolder folder;
  const std::string path = folder.file("report.json");
  {
    ReportWriter writer(path, sample_run());
    writer.begin(sample_run().trials[0].id, "");
    writer.add(sample_run().trials[0]);
    writer.add(sample_timing());
  }
  const std::string partial = path + kPartialReportSuffix;
  for (const std::string& name : {path, partial}) {
    const Validation result = validate_file(name);
    EXPECT_THAT(result.problems, IsEmpty());
    EXPECT_TRUE(result.partial);
    EXPECT_EQ(result.format, kReportFormat);
  }
  const std::string text = read_text_file(partial);
  write_file_atomically(partial, text + R"({"trial": {"id)");
  EXPECT_THAT(validate_file(partial).problems, IsEmpty());
  write_file_atomically(partial, text + R"({"trial": {"id": 1}})" + '\n');
  EXPECT_THAT(validate_file(partial).problems, Contains(StartsWith("/trials/1/id: Value type")));
  write_file_atomically(partial, text + "no\n" + text);
  EXPECT_EQ(refusal(partial), partial + ": line 5 is no JSON");
  Json header = Json::parse(text.substr(0, text.find('\n')));
  header["run"]["planned"] = {{"timings", 2}};
  write_file_atomically(partial, header.dump() + '\n');
  EXPECT_THAT(validate_file(partial).problems, Contains(StartsWith("/run/planned: ")));
  header["run"]["command"] = 7;
  write_file_atomically(partial, header.dump() + '\n');
  EXPECT_THAT(validate_file(partial).problems, Contains(StartsWith("/run/command: Failed")));
  write_file_atomically(partial, std::string());
  EXPECT_EQ(refusal(partial), partial + ": it is empty");
}

TEST(ValidateFile, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.json");
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"{\n\"a\": 1,\n]", "line 3 is no JSON"},
           {R"({"schema": "lossgrid.report/2"})",
            "it has the format lossgrid.report/2, this lossgrid reads lossgrid.report/1 alone"},
           {R"({"schema": "lossgrid.policy/1.1"})",
            "it has the format lossgrid.policy/1.1, this lossgrid reads lossgrid.policy/1 alone"},
           {R"({"schema": "other/1"})",
            "no format 'other/1'; known: lossgrid.report/1, lossgrid.policy/1"},
           {"[]", "the key 'schema' is missing"},
           {R"({"schema": 1e400})", "it has a number that no double holds"},
           {R"({"schema": "a", "b": {"c": 1, "c": 2}})", "the key 'c' stands twice in one object"},
           {R"({"schema": 1})", "the key 'schema' holds a number"}}) {
    write_file_atomically(path, text);
    EXPECT_EQ(refusal(path), path + ": " + message);
  }
  EXPECT_THAT(
      validate_file(std::string(LOSSGRID_SOURCE_DIR) + "/reports/policies/exact.json").problems,
      IsEmpty());
}

}  // namespace
}  // namespace lossgrid
