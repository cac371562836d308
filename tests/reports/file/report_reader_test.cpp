// SPDX-License-Identifier: Apache-2.0
#include "reports/file/report_reader.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "full_report.h"
#include "harness/core/error.h"
#include "reports/file/report_json.h"
#include "reports/file/report_writer.h"
#include "sample_run.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

class ReportReader : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::string refusal_of(const std::string& text, const std::string& name = "r.json") const {
    write(path(name), text);
    try {
      read_report(path(name));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr(path(name) + ": "));
      return error.what();
    }
    return "accepted";
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ReportReader, GivesBackTheSameReport) {
  RunRecord with_stages = sample_run();
  with_stages.wall_ns = 100;
  with_stages.stages = {{1, 2, 30, 4, 3, 5}};
  with_stages.trials[0].pp = 2;
  RunRecord cut_short = sample_run();
  cut_short.trials.clear();
  for (const TrialStatus status : trial_statuses()) {
    cut_short.trials.push_back(sample_cut_short(status));
  }
  RunRecord many_comparisons = sample_ab_run();  // their first look has no interval
  many_comparisons.ab[0].ratio = {1, 0, std::numeric_limits<double>::infinity(), 1};
  for (const RunRecord& run : {sample_run(), with_stages, cut_short, sample_mutants_run(),
                               sample_bench_run(), sample_ab_run(), many_comparisons}) {
    write(path("r.json"), json_text(full_report(run)));
    EXPECT_EQ(json_text(run_to_json(read_report(path("r.json")))), json_text(run_to_json(run)));
  }
}

TEST_F(ReportReader, ReadsWhatARunThatDidNotEndLeft) {
  const RunRecord run = sample_bench_run();
  {
    ReportWriter writer(path("r.json"), run);
    for (const TrialRecord& trial : sample_run().trials) writer.add(trial);
    for (const TimingRecord& timing : run.timings) writer.add(timing);
    for (const AbRecord& comparison : sample_ab_run().ab) writer.add(comparison);
  }
  const RunRecord left = read_report(path("r.json"));
  EXPECT_EQ(left.status, "partial");
  EXPECT_EQ(left.trials.size(), sample_run().trials.size());
  EXPECT_EQ(left.timings.size(), run.timings.size());
  EXPECT_EQ(left.ab.size(), 1u);
  EXPECT_EQ(trial_to_json(left.trials[1]), trial_to_json(sample_run().trials[1]));
  EXPECT_EQ(read_report(path("r.json.partial.jsonl")).trials.size(), left.trials.size());
}

TEST_F(ReportReader, LeavesOutALastLineThatWasCutOff) {
  nlohmann::ordered_json about = run_header_to_json(sample_run());
  about["defaults"] = report_format().defaults;
  const std::string header = json_text(about, -1) + '\n';
  const std::string trial =
      json_text({{"trial", trial_to_json(sample_trial(1, 1, "fused"))}}, -1) + '\n';
  for (std::size_t size = 0; size < trial.size() - 1; size += 97) {
    write(path("r.json.partial.jsonl"), header + trial + trial.substr(0, size));
    EXPECT_EQ(read_report(path("r.json")).trials.size(), 1u) << size;
  }
  EXPECT_THAT(refusal_of(header + trial.substr(0, 50) + '\n' + trial, "x.jsonl"),
              HasSubstr("a line is no JSON"));
  EXPECT_THAT(refusal_of("", "x.jsonl"), HasSubstr("it is empty"));
}

TEST_F(ReportReader, RefusesWhatIsNoReport) {
  nlohmann::ordered_json report = full_report(sample_run());
  EXPECT_THAT(refusal_of("{\"schema\": "), HasSubstr("it is no JSON"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("the key 'schema' is missing"));
  for (const std::string version : {"2", "1.1", "0", "10", ""}) {
    report["schema"] = "lossgrid.report/" + version;
    EXPECT_THAT(refusal_of(report.dump()),
                HasSubstr("it has version " + version +
                          " of the format, this lossgrid reads version 1 alone"));
  }
  report["schema"] = "pytest/1";
  EXPECT_THAT(refusal_of(report.dump()), HasSubstr("'pytest/1' is no report of lossgrid"));
  report["schema"] = "lossgrid.report/1";
  report["trials"][0]["status"] = "splendid";
  EXPECT_THAT(refusal_of(report.dump()), HasSubstr("unknown status 'splendid' of a trial"));
  report["trials"][0]["status"] = 7;
  EXPECT_THAT(refusal_of(report.dump()), HasSubstr("the key 'status' holds a number"));
  report["trials"][0].erase("status");
  EXPECT_THAT(refusal_of(report.dump()), HasSubstr("the key 'status' is missing"));
  nlohmann::ordered_json compared = full_report(sample_ab_run());
  compared["ab"][0]["verdict"] = "GOOD";
  EXPECT_THAT(refusal_of(compared.dump()),
              HasSubstr("unknown verdict 'GOOD' of an A/B comparison"));
  report["trials"] = 3;
  EXPECT_THAT(refusal_of(report.dump()), HasSubstr("the key 'trials' holds no list"));
}

TEST_F(ReportReader, TakesWholeNumbersThatFit) {
  nlohmann::ordered_json report = full_report(sample_run());
  report["run"]["exit_code"] = 10.0;
  write(path("r.json"), report.dump());
  EXPECT_EQ(read_report(path("r.json")).exit_code, 10);
  for (const nlohmann::ordered_json& value :
       {nlohmann::ordered_json(1e44), nlohmann::ordered_json(0.5),
        nlohmann::ordered_json(std::int64_t{1} << 40), nlohmann::ordered_json(~std::uint64_t{0})}) {
    report["run"]["exit_code"] = value;
    EXPECT_THAT(refusal_of(report.dump()),
                HasSubstr("the key 'exit_code' holds " + value.dump() +
                          ", no whole number from -2147483648 to 2147483647"));
  }
}

TEST_F(ReportReader, PassesOverKeysThatItDoesNotKnow) {
  nlohmann::ordered_json report = full_report(sample_run());
  report["trials"][0]["mood"] = "good";
  report["weather"] = {1, 2};
  write(path("r.json"), report.dump());
  EXPECT_EQ(read_report(path("r.json")).trials.size(), 5u);
}

TEST_F(ReportReader, AMissingFileIsAnErrorOfInput) {
  EXPECT_THROW(read_report(path("nowhere.json")), Error);
}

}  // namespace
}  // namespace lossgrid
