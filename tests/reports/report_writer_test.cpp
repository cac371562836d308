// SPDX-License-Identifier: Apache-2.0
#include "reports/report_writer.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "reports/report_json.h"
#include "sample_run.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

std::vector<Json> json_lines_of(const std::string& path) {
  std::istringstream text(read_text_file(path));
  std::vector<Json> lines;
  std::string line;
  while (std::getline(text, line)) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

template <typename F>
void expect_io_error(F&& f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr(part));
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
  }
}

TEST(ReportWriter, LinesAppearAtOnce) {
  const TemporaryFolder folder;
  const RunRecord run = sample_run();
  ReportWriter writer(folder.file("out/report.json"), run);
  const std::string partial = folder.file("out/report.json.partial.jsonl");

  std::vector<Json> lines = json_lines_of(partial);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["schema"], "lossgrid.report/1");
  EXPECT_EQ(lines[0]["run"]["status"], "partial");
  EXPECT_TRUE(lines[0]["run"]["exit_code"].is_null());
  EXPECT_FALSE(lines[0].contains("trials"));

  writer.add(run.trials[0]);
  ASSERT_EQ(json_lines_of(partial).size(), 2u);
  writer.add(run.trials[2]);
  lines = json_lines_of(partial);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["trial"], trial_to_json(run.trials[0]));
  EXPECT_EQ(lines[2]["trial"], trial_to_json(run.trials[2]));

  const MutantRecord mutant = sample_mutants_run().mutants[0];
  writer.add(mutant);
  EXPECT_EQ(json_lines_of(partial).back()["mutant"], mutant_to_json(mutant));
  EXPECT_FALSE(fs::exists(writer.path()));
}

TEST(ReportWriter, FinishLeavesOnlyTheReport) {
  const TemporaryFolder folder;
  const RunRecord run = sample_run();
  ReportWriter writer(folder.file("report.json"), run);
  for (const TrialRecord& trial : run.trials) writer.add(trial);
  writer.finish(run);
  EXPECT_THAT(files_in(folder.path()), testing::ElementsAre("report.json"));
  const std::string text = read_text_file(writer.path());
  EXPECT_EQ(Json::parse(text), run_to_json(run));
  EXPECT_EQ(text.back(), '\n');
}

TEST(ReportWriter, ReplacesAnOldReportOnlyAtTheEnd) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("report.json"), std::string("old"));
  {
    ReportWriter writer(folder.file("report.json"), sample_run());
    writer.add(sample_failure());
    EXPECT_EQ(read_text_file(folder.file("report.json")), "old");
  }
  EXPECT_EQ(read_text_file(folder.file("report.json")), "old");
}

TEST(ReportWriter, DestroyedWithoutFinishLeavesAReadablePartialFile) {
  const TemporaryFolder folder;
  {
    ReportWriter writer(folder.file("report.json"), sample_run());
    writer.add(sample_failure());
  }
  const std::vector<Json> lines = json_lines_of(folder.file("report.json.partial.jsonl"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["trial"]["status"], "failed");
}

TEST(ReportWriter, AKilledProcessLosesNoFinishedTrial) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ReportWriter writer(folder.file("report.json"), sample_run());
    writer.add(sample_failure());
    writer.add(sample_nan());
    ::raise(SIGKILL);  // no destructor, no atexit
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(json_lines_of(folder.file("report.json.partial.jsonl")).size(), 3u);
  EXPECT_FALSE(fs::exists(folder.file("report.json")));
}

TEST(ReportWriter, RefusesAFolder) {
  const TemporaryFolder folder;
  expect_io_error([&] { ReportWriter(folder.path(), sample_run()); },
                  "cannot write " + folder.path() + ": it is a folder");
  expect_io_error([&] { ReportWriter(folder.file("new/"), sample_run()); }, "names a folder");
  expect_io_error([&] { ReportWriter("", sample_run()); }, "empty");
}

TEST(ReportWriter, RefusesAnUnwritablePathBeforeAnythingRuns) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("file"), std::string("x"));
  expect_io_error([&] { ReportWriter(folder.file("file/report.json"), sample_run()); },
                  folder.file("file/report.json"));
  // Even root cannot make files there.
  expect_io_error([] { ReportWriter("/proc/report.json", sample_run()); }, "/proc/report.json");
  fs::create_directories(folder.file("report.json.partial.jsonl"));
  expect_io_error([&] { ReportWriter(folder.file("report.json"), sample_run()); },
                  "report.json.partial.jsonl: Is a directory");
}

TEST(ReportWriter, AFailedFinishKeepsThePartialFile) {
  const TemporaryFolder folder;
  ReportWriter writer(folder.file("report.json"), sample_run());
  writer.add(sample_failure());
  fs::create_directories(folder.file("report.json"));
  expect_io_error([&] { writer.finish(sample_run()); }, "it is a folder");
  EXPECT_EQ(json_lines_of(folder.file("report.json.partial.jsonl")).size(), 2u);
}

TEST(ReportWriter, AFullDiskIsReported) {
  const TemporaryFolder folder;
  fs::create_symlink("/dev/full", folder.file("report.json.partial.jsonl"));
  expect_io_error([&] { ReportWriter(folder.file("report.json"), sample_run()); }, "No space left");
}

TEST(ReportWriter, ADeviceHasNoFileBesideIt) {
  const TemporaryFolder folder;
  fs::create_symlink("/dev/null", folder.file("report.json"));
  ReportWriter writer(folder.file("report.json"), sample_run());
  writer.add(sample_failure());
  writer.finish(sample_run());
  EXPECT_THAT(files_in(folder.path()), testing::ElementsAre("report.json"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(ReportWriter, CanBeMoved) {
  const TemporaryFolder folder;
  ReportWriter first(folder.file("report.json"), sample_run());
  ReportWriter second(std::move(first));
  second.add(sample_failure());
  second.finish(sample_run());
  EXPECT_THAT(files_in(folder.path()), testing::ElementsAre("report.json"));
}

}  // namespace
}  // namespace lossgrid
