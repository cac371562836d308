// SPDX-License-Identifier: Apache-2.0
// Tests of `lossgrid export` of a report and `lossgrid list exports` for users: stdout or a file,
// exit codes, the step summary of GitHub Actions, and reports of a run that died.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process.h"
#include "reports/file/compact_report.h"
#include "reports/sample_run.h"

namespace lossgrid {
namespace {

using testing::HasSubstr;

/// Returns the formats that `lossgrid list exports` names.
std::vector<std::string> formats(const ScratchFolder& scratch) {
  const ProcessResult listed = run_lossgrid(scratch, "list exports");
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  std::istringstream lines(listed.out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);)
    names.push_back(line.substr(0, line.find(' ')));
  EXPECT_THAT(names, testing::Contains("junit"));
  return names;
}

std::string report_of(const ScratchFolder& scratch, const std::string& flags) {
  const std::string path = scratch.file("report.json");
  run_lossgrid(scratch,
               "run --case 'lens=5+8 vocab=24' --impl fused,cp_local --grid tp1cp1,tp2cp2 "
               "--report " +
                   path + " " + flags);
  return path;
}

TEST(Export, WritesEveryFormatToStdoutAndToAFile) {
  const ScratchFolder scratch;
  const std::string report = report_of(scratch, "");
  for (const std::string& format : formats(scratch)) {
    const ProcessResult printed = run_lossgrid(scratch, "export " + report + " --to " + format);
    EXPECT_EQ(printed.exit_code, 0) << printed.err;
    EXPECT_NE(printed.out, "") << format;
    EXPECT_EQ(printed.err, "") << format;
    const std::string path = scratch.file("new/" + format);
    const ProcessResult written =
        run_lossgrid(scratch, "export " + report + " --to " + format + " --out " + path);
    EXPECT_EQ(written.exit_code, 0) << written.err;
    EXPECT_EQ(written.out, "") << format;
    EXPECT_EQ(read_all(path), printed.out) << format;
    EXPECT_EQ(run_lossgrid(scratch, "export " + report + " -o - --to " + format).out, printed.out);
  }
}

TEST(Export, TakesThePartialFileOfAKilledRun) {
  const ScratchFolder scratch;
  const std::string report = report_of(scratch, "--inject rank=0,at=backward,trial=2,kind=kill");
  ASSERT_FALSE(std::filesystem::exists(report));
  for (const std::string& format : formats(scratch)) {
    const ProcessResult result = run_lossgrid(scratch, "export " + report + " --to " + format);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out, "") << format;
  }
  EXPECT_THAT(run_lossgrid(scratch, "export " + report + " --to junit").out,
              HasSubstr("<error type=\"incomplete\" message=\"incomplete (ended in the middle of "
                        "lens=5+8 vocab=24|"));
}

TEST(Export, AppendsTheStepSummaryOfGithubActions) {
  const ScratchFolder scratch;
  const std::string report = report_of(scratch, "");
  const std::string summary = scratch.file("summary.md");
  const std::string markdown = run_lossgrid(scratch, "export " + report + " --to markdown").out;
  const auto export_as = [&](const std::string& environment, const std::string& format) {
    write_all(summary, "before\n");
    const ProcessResult result =
        run_executable(scratch, "/usr/bin/env",
                       "-u GITHUB_ACTIONS -u GITHUB_STEP_SUMMARY " + environment +
                           " " LOSSGRID_EXECUTABLE " export " + report + " --to " + format);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_all(summary);
  };
  const std::string both = "GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=" + summary;
  EXPECT_EQ(export_as(both, "github"), "before\n" + markdown);
  EXPECT_EQ(export_as(both, "markdown"), "before\n");
  EXPECT_EQ(export_as("GITHUB_STEP_SUMMARY=" + summary, "github"), "before\n");
  EXPECT_EQ(export_as("GITHUB_ACTIONS=true", "github"), "before\n");
}

TEST(Export, WritesMediansForToolsThatDrawCharts) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("bench.json");
  const RunRecord run = sample_bench_run();
  write_all(report, report_text(compact_report(run)));
  const auto benchmarks = [&](const std::string& flags) {
    const ProcessResult result = run_lossgrid(scratch, "export " + report + " --to gbench" + flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out)["benchmarks"];
  };
  EXPECT_EQ(benchmarks("").size(), 4 * 11u);
  const nlohmann::json medians = benchmarks(" --one-per-case");
  ASSERT_EQ(medians.size(), 4u);
  EXPECT_EQ(medians[3]["real_time"], 2'000'000);
  EXPECT_EQ(medians[3]["repetitions"], 1);
}

TEST(Export, ASuiteBecomesABundleACase) {
  const ScratchFolder scratch;
  const std::string folder = scratch.file("new/bundles");
  const ProcessResult result =
      run_lossgrid(scratch, "export --suite perf_smoke --expected --out " + folder);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto has_case = [&](const std::string& name, const std::string& text) {
    const std::string bundle = read_all(folder + "/" + name + ".safetensors");
    EXPECT_THAT(bundle.substr(0, 2000), HasSubstr("\"case\":\"" + text + "\""));
    EXPECT_THAT(bundle.substr(0, 2000), HasSubstr("\"expected.grad_logits\""));
    EXPECT_THAT(result.out, HasSubstr(name + ".safetensors: 3 sequences, 128 tokens"));
  };
  EXPECT_THAT(result.out,
              testing::ContainsRegex("^\\[1/2\\] about [^\n]* left: " + folder + "/01_"));
  EXPECT_THAT(result.out, HasSubstr("\n[2/2] " + folder + "/02_"));
  has_case("01_small_dtype_f32", "lens=50+30+48 mask=all vocab=2048 statistics=false");
  has_case("02_small_dtype_bf16", "lens=50+30+48 mask=all vocab=2048 dtype=bf16 statistics=false");
}

TEST(Export, ASuiteIsAnnouncedWithItsSize) {
  const ScratchFolder scratch;
  for (const std::string flags : {"", "--expected "}) {
    const std::string folder = scratch.file("bundles" + std::to_string(flags.size()));
    const ProcessResult result =
        run_lossgrid(scratch, "export --suite perf_smoke " + flags + "--out " + folder);
    double mib = 0;
    ASSERT_EQ(std::sscanf(result.err.c_str(), "export: 2 bundles, about %lf MiB\n", &mib), 1)
        << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    std::uintmax_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) bytes += file.file_size();
    EXPECT_NEAR(mib, static_cast<double>(bytes) / (1 << 20), 0.06) << flags;
  }
}

/// The limit of memory ends the command before it writes anything.
TEST(Export, ASuiteOfGigabytesComesWithAWarning) {
  const ScratchFolder scratch;
  write_all(scratch.file("big.json"), R"({"suite": 1, "name": "big", "summary": "", "grids":
      ["tp1cp1"], "implementations": ["fused"], "cases": [{"name": "C", "lens": "12000", "vocab": 24000}]})");
  const ProcessResult result =
      run_executable(scratch, "/bin/sh",
                     "-c 'ulimit -v 900000; exec " LOSSGRID_EXECUTABLE " export --suite " +
                         scratch.file("big.json") + " --out " + scratch.file("bundles") + "'");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.err, testing::StartsWith("export: 1 bundle, about 1.1 GiB\n"
                                              "export: warning: more than 1.0 GiB, of the "));
}

TEST(Export, ASuiteThatHasNoRoomIsRefused) {
  const ScratchFolder scratch;
  write_all(scratch.file("huge.json"), R"({"suite": 1, "name": "huge", "summary": "", "grids":
      ["tp1cp1"], "implementations": ["fused"], "cases": [{"name": "C", "lens": "2000000", "vocab": [2000000, 2000001]}]})");
  const std::string folder = scratch.file("new/bundles");
  const ProcessResult result =
      run_lossgrid(scratch, "export --suite " + scratch.file("huge.json") + " --out " + folder);
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err,
              HasSubstr(folder + ": 2 bundles, about 29.1 TiB, and its file system has "));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(std::filesystem::exists(scratch.file("new")));
}

TEST(Export, RefusesWhatDoesNotGoTogether) {
  const ScratchFolder scratch;
  const std::string report = report_of(scratch, "");
  const auto expect = [&](const std::string& arguments, int code, const std::string& message) {
    const ProcessResult result = run_lossgrid(scratch, "export " + arguments);
    EXPECT_EQ(result.exit_code, code) << arguments;
    EXPECT_THAT(result.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "") << arguments;
  };
  expect("", 64, "takes a REPORT with --to FORMAT, or --case with --out FILE");
  expect(report + " --case 'lens=4' --out x", 64, "takes a REPORT with --to FORMAT, or --case");
  expect("--suite ci --case 'lens=4' --out x", 64, "or --suite with --out FOLDER");
  expect("--suite ci", 64, "--out says where the bundle goes");
  expect("--case 'lens=2000000 vocab=2000000' --out x", 77, "x: not enough memory: needs");
  expect(report, 64, "needs --to FORMAT");
  expect(report + " --to junit --expected", 64, "--expected goes with --case or --suite");
  expect("--case 'lens=4' --out x --to junit", 64, "--to goes with a report");
  expect(report + " --to junit --one-per-case", 64, "--one-per-case goes with --to gbench");
  expect("--case 'lens=4' --out x --one-per-case", 64, "--one-per-case goes with a report");
  expect(report + " --to junitt", 64, "did you mean 'junit'?");
  expect(report + " --to spreadsheet", 64, "known: ");
  expect("nowhere.json --to junit", 65, "nowhere.json");
  expect("README.md --to junit", 65, "README.md");
  expect(report + " --to junit --out /proc/nowhere/r.xml", 65, "/proc/nowhere");
}

TEST(Export, ListNamesTheFormats) {
  const ScratchFolder scratch;
  std::vector<std::string> listed;
  for (std::string format : formats(scratch)) {
    std::replace(format.begin(), format.end(), '-', '_');
    listed.push_back(format + ".cpp");
  }
  std::vector<std::string> sources;
  for (const auto& file :
       std::filesystem::directory_iterator(LOSSGRID_SOURCE_DIR "/reports/exports/formats")) {
    if (file.path().extension() == ".cpp") sources.push_back(file.path().filename().string());
  }
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(sources));
  EXPECT_THAT(run_lossgrid(scratch, "export --help").out, HasSubstr("lossgrid list exports"));
}

}  // namespace
}  // namespace lossgrid
