// SPDX-License-Identifier: Apache-2.0
// Off rank 0 every benchmark runs, nothing is printed and no file is asked for. And what the memory
// manager says, which reporters print.
#include "harness/gbench/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/gbench/memory_manager.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;

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
  std::string printed;
  EXPECT_EQ(calls_with(make_reporter(false).get(), printed), 3);
  EXPECT_EQ(printed, "");
}

TEST(Reporter, OnRankZeroIsTheOneOfTheFlags) {
  EXPECT_EQ(make_reporter(true), nullptr);
  std::string printed;
  calls_with(nullptr, printed);
  EXPECT_NE(printed, "");
}

TEST(Reporter, OffRankZeroNoFileIsWritten) {
  const std::vector<std::string> flags{"--benchmark_filter=x", "--benchmark_out=f",
                                       "--benchmark_out_format=json"};
  EXPECT_EQ(benchmark_flags_of(flags, true), flags);
  EXPECT_THAT(benchmark_flags_of(flags, false),
              ElementsAre("--benchmark_filter=x", "--benchmark_out_format=json"));
}

TEST(TrackerMemory, SaysWhatWasAddedBetweenStartAndStop) {
  TrackerMemory memory;
  memory.add(9000, 90);
  EXPECT_FALSE(memory.measuring());
  memory.Start();
  EXPECT_TRUE(memory.measuring());
  memory.add(300, 2);
  memory.add(200, 5);
  benchmark::MemoryManager::Result result;
  memory.Stop(result);
  EXPECT_FALSE(memory.measuring());
  EXPECT_EQ(result.max_bytes_used, 300);
  EXPECT_EQ(result.num_allocs, 7);
}

TEST(TrackerMemory, TakesTheLargestPhaseOfATracker) {
  MemoryTracker tracker;
  tracker.begin_phase("a");
  tracker.allocated("x", 100);
  tracker.released("x", 100);
  tracker.begin_phase("b");
  tracker.allocated("y", 40);
  TrackerMemory memory;
  memory.Start();
  memory.add(tracker);
  benchmark::MemoryManager::Result result;
  memory.Stop(result);
  EXPECT_EQ(result.max_bytes_used, 100);
  EXPECT_EQ(result.num_allocs, 2);
}

}  // namespace
}  // namespace lossgrid
