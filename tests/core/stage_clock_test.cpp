// SPDX-License-Identifier: Apache-2.0
#include "harness/core/stage_clock.h"

#include <thread>

#include <gtest/gtest.h>

#include "harness/core/clock.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kStep = 2'000'000;

void pass_time() {
  const std::int64_t start = steady_clock_ns();
  while (steady_clock_ns() - start < kStep) {
  }
}

TEST(StageClock, CountsInnerScopesOnce) {
  take_stage_times();
  const std::int64_t start = steady_clock_ns();
  {
    const StageScope compare(Stage::compare);
    pass_time();
    {
      const StageScope run(Stage::run);
      pass_time();
    }
    pass_time();
  }
  const std::int64_t wall = steady_clock_ns() - start;
  pass_time();  // outside of scopes
  const StageTimes times = take_stage_times();
  EXPECT_GE(times[Stage::compare], 2 * kStep);
  EXPECT_GE(times[Stage::run], kStep);
  EXPECT_LE(times.total(), wall);
  EXPECT_EQ(times[Stage::truth], 0);
  EXPECT_EQ(take_stage_times().total(), 0);
}

TEST(StageClock, ReassignsNoMoreThanTheScopeHas) {
  take_stage_times();
  reassign_stage_time(Stage::generate, kStep);  // outside of scopes
  {
    const StageScope compare(Stage::compare);
    pass_time();
    pass_time();
    reassign_stage_time(Stage::generate, kStep);
  }
  StageTimes times = take_stage_times();
  EXPECT_EQ(times[Stage::generate], kStep);
  EXPECT_GE(times[Stage::compare], kStep);
  {
    const StageScope compare(Stage::compare);
    pass_time();
    reassign_stage_time(Stage::generate, std::int64_t{1} << 60);
  }
  times = take_stage_times();
  EXPECT_GE(times[Stage::generate], kStep);
  EXPECT_LT(times[Stage::generate], std::int64_t{1} << 60);
}

TEST(StageClock, ThreadsHaveTheirOwn) {
  take_stage_times();
  StageTimes other;
  std::thread([&] {
    const StageScope run(Stage::run);
    pass_time();
  }).join();
  std::thread([&] {
    {
      const StageScope truth(Stage::truth);
      pass_time();
    }
    other = take_stage_times();
  }).join();
  EXPECT_EQ(take_stage_times().total(), 0);
  EXPECT_GE(other[Stage::truth], kStep);
  add_stage_times(other);
  EXPECT_EQ(take_stage_times()[Stage::truth], other[Stage::truth]);
}

TEST(StageClock, RanksSideBySideCountOnce) {
  StageTimes longest;
  longest.raise_to({{5, 0, 1, 0, 0, 0}});
  longest.raise_to({{3, 2, 4, 0, 0, 0}});
  EXPECT_EQ(longest.ns, (std::array<std::int64_t, kStages>{5, 2, 4, 0, 0, 0}));
  longest.add({{1, 1, 1, 1, 1, 0}});
  EXPECT_EQ(longest.total(), 16);
}

}  // namespace
}  // namespace lossgrid
