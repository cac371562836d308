// SPDX-License-Identifier: Apache-2.0
// Pauses between polls by a clock that the test sets.
#include "harness/comm/thread/backoff.h"

#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

std::int64_t now_ns = 0;
std::int64_t test_clock() {
  return now_ns;
}

/// Returns the microseconds of `count` pauses at a moment, from the begin of a wait.
std::vector<std::int64_t> sleeps_at(Backoff& backoff, std::int64_t microseconds, int count) {
  now_ns = 7'000 + 1000 * microseconds;
  std::vector<std::int64_t> sleeps;
  for (int k = 0; k < count; ++k) sleeps.push_back(backoff.next().count());
  return sleeps;
}

using Sleeps = std::vector<std::int64_t>;

TEST(Backoff, InACollectiveSleepsAfterTwoHundredMicroseconds) {
  now_ns = 7'000;
  Backoff backoff = Backoff::brisk(test_clock);
  EXPECT_EQ(sleeps_at(backoff, 0, 1000), Sleeps(1000, 0));
  EXPECT_EQ(sleeps_at(backoff, 199, 3), Sleeps(3, 0));
  EXPECT_EQ(sleeps_at(backoff, 200, 6), (Sleeps{10, 20, 40, 80, 100, 100}));
}

TEST(Backoff, ForKernelsSleepsInNoPhaseOfAMillisecond) {
  now_ns = 7'000;
  Backoff backoff = Backoff::for_kernels(test_clock);
  EXPECT_EQ(sleeps_at(backoff, 1000, 3), Sleeps(3, 0));
  EXPECT_EQ(sleeps_at(backoff, 9'999, 3), Sleeps(3, 0));
  EXPECT_EQ(sleeps_at(backoff, 10'000, 2), (Sleeps{10, 20}));
}

TEST(Backoff, InAnIdleProcessSleepsForUpToAMillisecond) {
  now_ns = 7'000;
  Backoff backoff = Backoff::idle(test_clock);
  EXPECT_EQ(sleeps_at(backoff, 9, 1), Sleeps{0});
  EXPECT_EQ(sleeps_at(backoff, 10, 9), (Sleeps{10, 20, 40, 80, 160, 320, 640, 1000, 1000}));
}

}  // namespace
}  // namespace lossgrid
