// SPDX-License-Identifier: Apache-2.0
// lossgrid_gbench as a process: its JSON, filters, exit codes, and one line for flags that make no
// sense. No time is compared with another.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "process.h"

namespace lossgrid {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ProcessResult run_gbench(const ScratchFolder& scratch, const std::string& arguments) {
  return run_executable(scratch, LOSSGRID_GBENCH_EXECUTABLE, arguments);
}

TEST(Gbench, KernelsStandBesidePlainCode) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("gbench.json");
  const ProcessResult result =
      run_gbench(scratch,
                 "--benchmark_filter='^(sweep|statistics|gradient|exp)/.*/32768$' "
                 "--benchmark_min_time=0.0001 --benchmark_out=" +
                     file);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> expected{"exp/highway/f32/32768", "exp/plain/f32/32768"};
  for (const char* kernel : {"statistics", "gradient", "sweep"}) {
    for (const char* code : {"highway", "plain"}) {
      for (const char* dtype : {"f32", "bf16"}) {
        expected.push_back(std::string(kernel) + "/" + code + "/" + dtype + "/32768");
      }
    }
  }
  const json written = json::parse(read_all(file));
  std::vector<std::string> names;
  for (const json& entry : written.at("benchmarks")) {
    names.push_back(entry.at("name"));
    EXPECT_GT(entry.at("real_time").get<double>(), 0) << entry;
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(expected));
}

TEST(Gbench, ListsKernelsAndCollectives) {
  const ScratchFolder scratch;
  const ProcessResult result = run_gbench(scratch, "--benchmark_list_tests");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("values/denormal/bf16/32768\n"));
  EXPECT_THAT(result.out, HasSubstr("all_reduce/threads/2/256/manual_time\n"));
}

TEST(Gbench, NothingRunsIfNoNameMatches) {
  const ScratchFolder scratch;
  EXPECT_EQ(run_gbench(scratch, "--benchmark_filter=no_such").exit_code, 77);
}

TEST(Gbench, HelpHasNamesAndFlags) {
  const ScratchFolder scratch;
  const ProcessResult result = run_gbench(scratch, "--help");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* text : {"statistics, all_statistics", "--benchmark_filter=<regex>"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
}

TEST(Gbench, FlagsThatMakeNoSenseGetOneLine) {
  const ScratchFolder scratch;
  struct Refused {
    const char* arguments;
    const char* message;
  };
  for (const Refused& refused :
       {Refused{"--case 'lens=4'", "unknown flag or value: --case"},
        Refused{"--benchmark_filters=x", "unknown flag or value: --benchmark_filters=x"},
        Refused{"--benchmark_format=xml", "rejects the value of a --benchmark_* flag"}}) {
    const ProcessResult result = run_gbench(scratch, refused.arguments);
    EXPECT_EQ(result.exit_code, 64) << refused.arguments << result.out;
    EXPECT_THAT(result.err, HasSubstr(refused.message)) << refused.arguments;
    EXPECT_THAT(result.err, StartsWith("lossgrid_gbench: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace lossgrid
