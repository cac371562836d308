// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/for_each_index.h"

#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TEST(ForEachIndex, CallsEveryIndexOnce) {
  for (const int threads : {1, 4}) {
    std::vector<int> calls(1000, 0);
    for_each_index(1000, threads, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    EXPECT_THAT(calls, ::testing::Each(1)) << threads;
  }
  for_each_index(0, 4, [](std::int64_t) { FAIL(); });
}

TEST(ForEachIndex, RethrowsAfterAllThreadsHaveEnded) {
  for (const int threads : {1, 4}) {
    const auto fail = [](std::int64_t i) {
      if (i == 17) throw std::runtime_error("seventeen");
    };
    EXPECT_THROW(for_each_index(1000, threads, fail), std::runtime_error) << threads;
  }
}

TEST(ThreadsFor, AreNoMoreThanTheWorkIsWorth) {
  EXPECT_EQ(threads_for(0, 8), 1);
  EXPECT_EQ(threads_for(1'999, 8), 1);
  EXPECT_EQ(threads_for(4'000, 8), 2);
  EXPECT_EQ(threads_for(1'000'000, 8), 8);
  EXPECT_EQ(threads_for(1'000'000, 1), 1);
}

}  // namespace
}  // namespace lossgrid
