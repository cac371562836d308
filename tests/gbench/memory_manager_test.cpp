// SPDX-License-Identifier: Apache-2.0
// Reporters print the memory that a benchmark adds in the call between Start and Stop, no other.
#include "harness/gbench/memory_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collector.h"

namespace lossgrid {
namespace {

TEST(TrackerMemory, IsThatOfTheUntimedCall) {
  TrackerMemory memory;
  int timed = 0;
  benchmark::RegisterBenchmark("b", [&](benchmark::State& state) {
    for ([[maybe_unused]] auto _ : state) {
    }
    if (memory.measuring()) {
      EXPECT_EQ(state.iterations(), 16u);  // the most, of 40
      memory.add(300, 2);
      memory.add(200, 5);
    } else {
      memory.add(9000, 90);
      ++timed;
    }
  })->Iterations(40);
  const std::vector<CollectedRun> runs = run_registered(memory);
  EXPECT_EQ(timed, 1);
  EXPECT_FALSE(memory.measuring());
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].max_bytes_used, 300);
  EXPECT_EQ(runs[0].allocations, 7);
  EXPECT_DOUBLE_EQ(runs[0].run.allocs_per_iter, 7.0 / 16);
}

TEST(TrackerMemory, TakesTheLargestPhaseOfATracker) {
  MemoryTracker tracker;
  tracker.begin_phase("a");
  tracker.allocated("x", 100);
  tracker.released("x", 100);
  tracker.begin_phase("b");
  tracker.allocated("y", 40);
  TrackerMemory memory;
  benchmark::RegisterBenchmark("b", [&](benchmark::State& state) {
    for ([[maybe_unused]] auto _ : state) {
    }
    memory.add(tracker);
  })->Iterations(1);
  const std::vector<CollectedRun> runs = run_registered(memory);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].max_bytes_used, 100);
  EXPECT_EQ(runs[0].allocations, 2);
}

}  // namespace
}  // namespace lossgrid
