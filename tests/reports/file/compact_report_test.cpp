// SPDX-License-Identifier: Apache-2.0
// Compact form of a report: everything stands once, and reads back as it was.
#include "reports/file/compact_report.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "full_report.h"
#include "harness/core/error.h"
#include "harness/core/file.h"
#include "reports/file/report_format.h"
#include "reports/file/report_json.h"
#include "reports/file/report_reader.h"
#include "reports/file/schema.h"
#include "reports/file/validate.h"
#include "sample_run.h"
#include "shell.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A trial whose ranks 0 and 2 are alike in all phases, and rank 1 in one.
TrialRecord trial_with_ranks() {
  TrialRecord trial = sample_trial(3, 1, "fused");
  trial.memory.clear();
  for (const std::int64_t rank : {0, 1, 2}) {
    for (const std::string phase : {"plan", "forward", "backward"}) {
      const std::int64_t bytes = rank == 1 && phase != "plan" ? 512 : 1024;
      trial.memory.push_back({rank, phase, bytes, bytes, bytes, 1, {{"logits", bytes}}});
    }
  }
  return trial;
}

/// Trials of all kinds: every status, ranks alike and not, all defaults, no defaults.
RunRecord varied_run() {
  RunRecord run = sample_run();
  for (const TrialStatus status : trial_statuses()) run.trials.push_back(sample_cut_short(status));
  run.trials.push_back(sample_linear_trial(4, 1e-7, 0.5));
  run.trials.push_back(sample_trial(2, 2, "cp_local", 3));
  run.trials.push_back(trial_with_ranks());
  run.trials.push_back(trial_with_ranks());
  run.trials.back().id += " again";
  TrialRecord backwards = trial_with_ranks();  // in no order that "ranks" could express
  std::reverse(backwards.memory.begin(), backwards.memory.end());
  run.trials.push_back(backwards);
  TrialRecord by_phase = trial_with_ranks();
  std::swap(by_phase.memory[3], by_phase.memory[5]);  // another order of phases on rank 1
  run.trials.push_back(by_phase);
  TrialRecord other = sample_trial(1, 1, "fused");
  other.backend = "cuda";
  other.transport = "nccl";
  other.checks[0].passed = false;  // at ratio 0.125
  other.checks[0].ratio = 0;
  other.determinism[0].detail = "why";
  other.times[0].kernel_launches = 3;
  other.metrics["memory"] = 3;  // named as a list of "shared", and a number
  other.memory[0].by_tag_bytes["checks"] = 1;
  other.case_parameters["memory"] = 2;
  run.trials.push_back(other);
  return run;
}

RunRecord written_and_read(const Json& report) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("r.json"), report_text(report));
  return read_report(folder.file("r.json"));
}

TEST(CompactReport, ReadsBackAsWhatItWasMadeOf) {
  for (const RunRecord& run :
       {varied_run(), RunRecord(), sample_mutants_run(), sample_bench_run(), sample_ab_run()}) {
    EXPECT_EQ(json_text(run_to_json(written_and_read(compact_report(run)))),
              json_text(run_to_json(run)));
  }
}

TEST(CompactReport, IsValidAlsoWithPartsInFull) {
  const RunRecord run = varied_run();
  EXPECT_THAT(schema_problems("report", compact_report(run)), IsEmpty());
  EXPECT_THAT(schema_problems("report", full_report(run)), IsEmpty());
  const TemporaryFolder folder;
  write_file_atomically(folder.file("a.json"), report_text(compact_report(run)));
  EXPECT_THAT(validate_file(folder.file("a.json")).problems, IsEmpty());
}

/// Counts the members of `value` that "defaults" has for `key` with the same value.
int needless_members(const std::string& key, const Json& value) {
  if (!value.is_object() || !report_format().defaults.contains(key)) return 0;
  int found = 0;
  for (const auto& [name, member] : value.items()) {
    const Json& standard = report_format().defaults[key];
    found += standard.contains(name) && standard[name] == member ? 1 : 0;
    found += needless_members(name, member);
  }
  return found;
}

TEST(CompactReport, LeavesOutExactlyTheDefaults) {
  const RunRecord run = varied_run();
  const Json report = compact_report(run);
  for (std::size_t k = 0; k < run.trials.size(); ++k) {
    const Json full = trial_to_json(run.trials[k]);
    const Json& trial = report["trials"][k];
    for (const auto& [key, value] : full.items()) {
      const Json& standard = report_format().defaults["trial"];
      const bool is_default = standard.contains(key) && standard[key] == value;
      EXPECT_EQ(trial.contains(key), !is_default) << key;
    }
    EXPECT_EQ(needless_members("trial", trial), 0) << trial;
    for (const auto& [key, value] : trial.items()) {
      if (!value.is_array()) continue;
      for (const Json& element : value) EXPECT_EQ(needless_members(key, element), 0) << element;
    }
  }
  for (const auto& [key, list] : report["shared"].items()) {
    for (const Json& value : list) EXPECT_EQ(needless_members(key, value), 0) << value;
  }
}

TEST(CompactReport, SharesWhatSeveralTrialsHaveAndNothingElse) {
  const Json report = compact_report(varied_run());
  std::map<std::string, std::vector<int>> uses;
  for (const auto& [key, list] : report["shared"].items()) {
    uses[key].resize(list.size());
    std::vector<std::string> texts;
    for (const Json& value : list) texts.push_back(value.dump());
    std::sort(texts.begin(), texts.end());
    EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end()) << key;
  }
  for (const Json& trial : report["trials"]) {
    for (const std::string& key : report_format().shared_keys) {
      if (!trial.contains(key)) continue;
      const Json values = trial[key].is_array() ? trial[key] : Json::array({trial[key]});
      for (const Json& value : values) {
        if (value.is_number()) ++uses.at(key).at(value.get<std::size_t>());
      }
    }
  }
  for (const auto& [key, counts] : uses) {
    for (const int count : counts) EXPECT_GT(count, 1) << key;
  }
  EXPECT_EQ(uses.count("case"), 1u);
  EXPECT_EQ(uses.count("checks"), 1u);
}

TEST(CompactReport, SharesNothingForOneTrial) {
  RunRecord run = sample_run();
  run.trials.in_memory().resize(1);
  const Json report = compact_report(run);
  EXPECT_THAT(report["shared"], IsEmpty());
  EXPECT_EQ(report["trials"][0]["checks"][1]["name"], "logprobs");
}

TEST(CompactReport, RanksThatAreAlikeStandOnce) {
  RunRecord run = sample_run();
  run.trials = {trial_with_ranks()};
  const Json memory = compact_report(run)["trials"][0]["memory"];
  ASSERT_EQ(memory.size(), 5u);
  EXPECT_EQ(memory[0]["ranks"], Json({0, 1, 2}));
  EXPECT_EQ(memory[1]["ranks"], Json({0, 2}));
  EXPECT_EQ(memory[3]["rank"], 1);
  EXPECT_FALSE(memory[3].contains("ranks"));
}

TEST(CompactReport, OneLineATrial) {
  const std::string text = report_text(compact_report(sample_run()));
  for (const TrialRecord& trial : sample_run().trials) {
    EXPECT_THAT(text, HasSubstr("\n    {\"id\":\"" + trial.id + "\","));
  }
  EXPECT_THAT(text, HasSubstr("\n  \"run\": {\n    \"command\": \"run\",\n"));
  EXPECT_EQ(text.back(), '\n');
}

/// The reader's message for a report after `change`.
std::string refusal_after(const std::function<void(Json&)>& change) {
  Json report = compact_report(varied_run());
  change(report);
  try {
    written_and_read(report);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "accepted";
}

TEST(CompactReport, PlacesThatAreNotThereAreRefused) {
  const auto far_check = [](Json& report) { report["trials"][0]["checks"][2] = 4000; };
  EXPECT_THAT(refusal_after(far_check), HasSubstr("'checks' of a trial is 4000, and 'shared' has"));
  EXPECT_THAT(refusal_after([](Json& report) { report["trials"][0]["case"] = -1; }),
              HasSubstr("'case' of a trial is -1, and 'shared' has"));
  EXPECT_THAT(refusal_after([](Json& report) { report["trials"][0]["case"] = 0.5; }),
              HasSubstr("'case' of a trial is 0.5, and 'shared' has"));
  EXPECT_THAT(refusal_after([](Json& report) { report.erase("shared"); }),
              HasSubstr("'shared' has 0 of them"));
  EXPECT_THAT(refusal_after([](Json& report) { report.erase("defaults"); }),
              HasSubstr("the key 'defaults' is missing"));

  Json report = compact_report(varied_run());
  far_check(report);
  const TemporaryFolder folder;
  write_file_atomically(folder.file("a.json"), report_text(report));
  EXPECT_THAT(validate_file(folder.file("a.json")).problems,
              ElementsAre(StartsWith("/trials/0/checks/2: /shared/checks has ")));
}

TEST(CompactReport, TheSchemaRequiresMembersWithoutADefault) {
  const auto problems_after = [](const std::function<void(Json&)>& change) {
    Json report = compact_report(varied_run());
    change(report);
    return schema_problems("report", report);
  };
  EXPECT_THAT(problems_after([](Json& r) { r["trials"][0].erase("id"); }),
              ElementsAre(StartsWith("/trials/0: Missing required property 'id'")));
  EXPECT_THAT(problems_after([](Json& r) { r["shared"]["checks"][0].erase("name"); }),
              ElementsAre(StartsWith("/shared/checks/0: Missing required property 'name'")));
  EXPECT_THAT(problems_after([](Json& r) { r["defaults"]["checks"].erase("ratio"); }),
              ElementsAre(StartsWith("/defaults/checks: Missing required property 'ratio'")));
  EXPECT_THAT(problems_after([](Json& r) { r["trials"][0]["checks"][0] = -1; }),
              ElementsAre(StartsWith("/trials/0/checks/0: ")));
  EXPECT_THAT(problems_after([](Json& r) { r.erase("defaults"); }),
              ElementsAre("/: Missing required property 'defaults'."));
}

TEST(CompactReport, TheFormatHasTheVersionThatIsRead) {
  EXPECT_EQ(kReportFormat, "lossgrid.report/" + std::string(kFormatVersion));
}

/// The scripts of the page expand a report to the same.
TEST(CompactReport, ThePageWritesItOut) {
  if (!shell_has("command -v chromium")) GTEST_SKIP() << "needs chromium";
  const TemporaryFolder folder;
  const RunRecord run = varied_run();
  const std::string script =
      read_text_file(std::string(LOSSGRID_SOURCE_DIR) + "/reports/html/page_expand.js");
  write_file_atomically(folder.file("page.html"),
                        "<body><script>\n" + script +
                            "const report = " + json_text(compact_report(run), -1) +
                            ";\ndocument.body.dataset.trials = "
                            "btoa(JSON.stringify(expandReport(report).trials));\n</script>");
  const ShellOutcome outcome = run_shell(
      "chromium --headless=new --disable-gpu --disable-dev-shm-usage --user-data-dir=" +
      folder.file("profile") + " $([ $(id -u) -ne 0 ] || echo --no-sandbox) --dump-dom file://" +
      folder.file("page.html") + " 2>/dev/null | grep -o 'data-trials=\"[^\"]*' | cut -d'\"' -f2 " +
      "| base64 -d");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  // Members of objects have another order; the other kind of JSON sorts them.
  EXPECT_EQ(nlohmann::json::parse(outcome.output), nlohmann::json(run_to_json(run)["trials"]));
}

/// Returns the jq command of docs/report-format.md.
TEST(CompactReport, JqFindsTheWorstRatioOfFailedTrials) {
  if (!shell_has("command -v jq")) GTEST_SKIP() << "needs jq";
  const std::string readme =
      read_text_file(std::string(LOSSGRID_SOURCE_DIR) + "/docs/report-format.md");
  const std::size_t begin = readme.find("jq -r '");
  const std::size_t end = readme.find("\n```", begin);
  ASSERT_NE(end, std::string::npos);
  const TemporaryFolder folder;
  RunRecord run = sample_run();  // its third trial has an infinite ratio
  run.trials.push_back(run.trials[1]);
  run.trials.back().id += " again";
  write_file_atomically(folder.file("report.json"), report_text(compact_report(run)));
  const ShellOutcome outcome =
      run_shell("cd " + folder.path() + "; " + readme.substr(begin, end - begin));
  const auto line = [&](const std::string& ratio, std::size_t trial) {
    return ratio + "\t" + run.trials[trial].id + "\t" + "lossgrid run --impl fused --grid ";
  };
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, StartsWith(line("12345", 1)));
  EXPECT_THAT(outcome.output, HasSubstr("\n" + line("1.7976931348623157e+308", 2)));
  EXPECT_THAT(outcome.output, HasSubstr("\n" + line("12345", 5)));
}

}  // namespace
}  // namespace lossgrid
