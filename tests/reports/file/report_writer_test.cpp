// SPDX-License-Identifier: Apache-2.0
#include "reports/file/report_writer.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "reports/file/packed_text.h"
#include "reports/file/report_json.h"
#include "reports/file/report_reader.h"
#include "reports/file/validate.h"
#include "sample_run.h"
#include "shell.h"

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
  EXPECT_EQ(lines[0]["schema"], kReportFormat);
  EXPECT_EQ(lines[0]["run"]["status"], "partial");
  EXPECT_TRUE(lines[0]["run"]["exit_code"].is_null());
  EXPECT_FALSE(lines[0].contains("trials"));

  writer.add(run.trials[0]);
  ASSERT_EQ(json_lines_of(partial).size(), 2u);
  writer.add(run.trials[2]);
  lines = json_lines_of(partial);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1]["trial"]["id"], run.trials[0].id);
  EXPECT_EQ(lines[2]["trial"]["id"], run.trials[2].id);
  EXPECT_EQ(lines[2]["shared"].count("case"), 0u);  // the first line has it
  EXPECT_EQ(lines[2]["trial"]["case"], 0);
  const RunRecord so_far = read_report(partial);
  ASSERT_EQ(so_far.trials.size(), 2u);
  EXPECT_EQ(trial_to_json(so_far.trials[0]), trial_to_json(run.trials[0]));
  EXPECT_EQ(trial_to_json(so_far.trials[1]), trial_to_json(run.trials[2]));

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
  EXPECT_EQ(text, report_text(compact_report(run)));
  EXPECT_EQ(text.back(), '\n');
}

TEST(ReportWriter, PacksByName) {
  const TemporaryFolder folder;
  const RunRecord run = sample_run();
  const std::string path = folder.file("report.json.gz");
  {
    ReportWriter writer(path, run);
    writer.add(run.trials[0]);
  }
  EXPECT_EQ(read_report(path).trials.size(), 1u);  // of the partial file, which is text
  EXPECT_EQ(json_lines_of(path + ".partial.jsonl").size(), 2u);
  ReportWriter(path, run).finish(run);
  EXPECT_THAT(files_in(folder.path()), testing::ElementsAre("report.json.gz"));
  const ShellOutcome unpacked = run_shell("gzip -dc " + path);
  EXPECT_EQ(unpacked.output, report_text(compact_report(run)));
  // Its name does not matter to readers, its content does.
  fs::copy_file(path, folder.file("renamed.json"));
  for (const std::string name : {"report.json.gz", "renamed.json"}) {
    EXPECT_EQ(json_text(run_to_json(read_report(folder.file(name)))), json_text(run_to_json(run)));
    EXPECT_THAT(validate_file(folder.file(name)).problems, testing::IsEmpty());
  }
}

TEST(ReportWriter, ADamagedPackedFileIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("r.json.gz");
  const std::string bytes = gzip(report_text(compact_report(sample_run())));
  const auto refusal_of = [&](const std::string& content) -> std::string {
    write_file_atomically(path, content);
    try {
      read_report(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal_of(bytes), "accepted");
  EXPECT_EQ(refusal_of(bytes.substr(0, bytes.size() / 2)),
            path + ": it is a gzip file that was cut off");
  EXPECT_EQ(refusal_of(bytes.substr(0, 2)), path + ": it is a gzip file that was cut off");
  std::string damaged = bytes;
  damaged[bytes.size() - 6] ^= 1;  // in its checksum
  EXPECT_EQ(refusal_of(damaged), path + ": it is a damaged gzip file");
  EXPECT_EQ(refusal_of(bytes + "more"), path + ": it is a damaged gzip file");
  EXPECT_THROW(gunzip(bytes, 1000), Error);
  EXPECT_EQ(gunzip(gzip("a") + gzip("b")), "ab");
  EXPECT_EQ(gunzip(gzip(std::string(std::size_t{3} << 20, 'x'))).size(), std::size_t{3} << 20);
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
