// SPDX-License-Identifier: Apache-2.0
// Off rank 0 every benchmark runs, nothing is printed and no file is written; on rank 0 Google
// Benchmark's own reporters follow the flags.
#include "harness/gbench/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int calls_with(benchmark::BenchmarkReporter* reporter, std::string& printed) {
  int calls = 0;
  benchmark::RegisterBenchmark("counted", [&calls](benchmark::State& state) {
    for ([[maybe_unused]] auto _ : state) ++calls;
  })->Iterations(3);
  testing::internal::CaptureStdout();
  EXPECT_EQ(benchmark::RunSpecifiedBenchmarks(reporter, "all"), 1u);
  printed = testing::internal::GetCapturedStdout();
  benchmark::ClearRegisteredBenchmarks();
  return calls;
}

TEST(Reporter, OffRankZeroRunsAndPrintsNothing) {
  const Reporters reporters = make_reporters({"--benchmark_format=json"}, false);
  std::string printed;
  EXPECT_EQ(calls_with(reporters.display.get(), printed), 3);
  EXPECT_EQ(printed, "");
}

TEST(Reporter, OnRankZeroIsTheOneOfTheFlags) {
  std::string printed;
  EXPECT_EQ(make_reporters({}, true).display, nullptr);
  EXPECT_EQ(calls_with(nullptr, printed), 3);
  EXPECT_THAT(printed, HasSubstr("counted"));
  const Reporters reporters = make_reporters({"--benchmark_format=json"}, true);
  EXPECT_EQ(reporters.file, nullptr);
  calls_with(reporters.display.get(), printed);
  EXPECT_THAT(printed, HasSubstr("\"name\": \"counted/iterations:3\""));
}

TEST(Reporter, WritesAFileOnRankZeroAlone) {
  const std::vector<std::string> flags{"--benchmark_out=f"};
  EXPECT_NE(make_reporters(flags, true).file, nullptr);
  EXPECT_EQ(make_reporters(flags, true).display, nullptr);
  EXPECT_EQ(make_reporters({"--benchmark_out=f", "--benchmark_out_format=csv"}, true).file,
            nullptr);
  EXPECT_EQ(make_reporters({"--benchmark_out=f", "--benchmark_out="}, true).file, nullptr);
  EXPECT_EQ(make_reporters(flags, false).file, nullptr);
  EXPECT_EQ(benchmark_flags_of(flags, true), flags);
  EXPECT_THAT(benchmark_flags_of(flags, false), ElementsAre(flags[0], "--benchmark_out="));
}

// Google Benchmark reads the environment too.
TEST(Reporter, WritesTheFileThatTheEnvironmentAsksFor) {
  ::setenv("BENCHMARK_OUT", "f", 1);
  EXPECT_NE(make_reporters({}, true).file, nullptr);
  ::unsetenv("BENCHMARK_OUT");
  EXPECT_EQ(make_reporters({}, true).file, nullptr);
}

}  // namespace
}  // namespace lossgrid
