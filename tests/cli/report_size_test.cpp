// SPDX-License-Identifier: Apache-2.0
// Size of the report of a real suite, packed reports on the command line, and memory of long runs.
#include <algorithm>
#include <cstdint>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "full_report.h"
#include "process.h"

namespace lossgrid {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

// A report of suite ci, with 20735 trials, has at most 60 MB.
constexpr std::size_t kMostBytesOfATrial = 60'000'000 / 20'735;

TEST(ReportSize, IsBoundedForTrialsOfSuiteCi) {
  const ScratchFolder scratch;
  const std::string report = scratch.file("r.json");
  const ProcessResult result =
      run_lossgrid(scratch,
                   "run --suite ci --impl fused,fused:chunk_tokens=1,fused:chunk_tokens=7 "
                   "--grid tp1cp2,tp1cp4 --quiet --report " +
                       report);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::size_t trials = read_report(report).trials.size();
  EXPECT_GT(trials, 300u);
  EXPECT_LE(fs::file_size(report), trials * kMostBytesOfATrial);
  EXPECT_GT(json_text(full_report(report)).size(), 5 * fs::file_size(report));
}

TEST(PackedReport, EveryCommandReadsIt) {
  const ScratchFolder scratch;
  const std::string packed = scratch.file("r.json.gz");
  const std::string run = "run --case 'lens=5+8 vocab=24' --impl fused --grid tp1cp1,tp2cp1 ";
  ASSERT_EQ(run_lossgrid(scratch, run + "--report " + packed).exit_code, 0);
  EXPECT_FALSE(fs::exists(packed + ".partial.jsonl"));
  EXPECT_EQ(read_all(packed).substr(0, 2), "\x1f\x8b");
  for (const std::string& command : std::vector<std::string>{
           "validate " + packed, "compare " + packed + " " + packed,
           "gate " + packed + " " + packed +
               " --policy " LOSSGRID_SOURCE_DIR "/reports/policies/exact.json",
           "history append " + packed + " --file " + scratch.file("history.jsonl"),
           "html " + packed, "export " + packed + " --to junit --out " + scratch.file("junit.xml"),
           run + "--resume " + packed + " --report " + scratch.file("again.json")}) {
    const ProcessResult result = run_lossgrid(scratch, command);
    EXPECT_EQ(result.exit_code, 0) << command << '\n' << result.out << result.err;
  }
  EXPECT_TRUE(fs::exists(scratch.file("r.html")));
  EXPECT_EQ(full_report(scratch.file("again.json"))["trials"], full_report(packed)["trials"]);

  fs::resize_file(packed, fs::file_size(packed) - 20);
  const ProcessResult cut = run_lossgrid(scratch, "validate " + packed);
  EXPECT_EQ(cut.exit_code, 65);
  EXPECT_THAT(cut.err, HasSubstr(packed + ": it is a gzip file that was cut off"));
}

/// Returns the peak memory of `lossgrid run` on 150 cases with four trials for each implementation.
std::int64_t peak_bytes_of_run(const ScratchFolder& scratch, const std::string& implementations) {
  const std::string suite = scratch.file("many.json");
  std::string text =
      R"({"suite": 1, "name": "many", "summary": "small ones", "grids": ["tp1cp1", "tp2cp1", "tp1cp2",
          "tp2cp2"], "implementations": ["fused"], "cases": [)";
  for (int k = 0; k < 150; ++k) {
    text += fmt::format(R"({}{{"lens": "5+8", "vocab": 24, "seed": {}}})", k == 0 ? "" : ", ", k);
  }
  write_all(suite, text + "]}");
  const std::string report = scratch.file("report.json");
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(LOSSGRID_EXECUTABLE, "lossgrid", "run", "--suite", suite.c_str(), "--impl",
            implementations.c_str(), "--quiet", "--report", report.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  EXPECT_EQ(status, 0);
  const auto trials = static_cast<std::int64_t>(read_report(report).trials.size());
  EXPECT_EQ(trials, 600 * (1 + std::count(implementations.begin(), implementations.end(), ',')));
  return std::int64_t{used.ru_maxrss} << 10;
}

// A trial takes 36 KiB as a record, and 50 more while a report of all trials is made in memory.
TEST(MemoryOfARun, DoesNotGrowWithItsTrials) {
  const ScratchFolder scratch;
  constexpr std::int64_t kMostGrowthOfATrial = 2 << 10;
  const std::int64_t of_600 = peak_bytes_of_run(scratch, "fused");
  const std::int64_t of_2400 = peak_bytes_of_run(scratch, "fused,cp_local,one_sweep,per_sequence");
  EXPECT_LT(of_2400 - of_600, 1800 * kMostGrowthOfATrial) << of_600 << " and " << of_2400;
}

}  // namespace
}  // namespace lossgrid
