// SPDX-License-Identifier: Apache-2.0
// The order of rounds: every item once, and over two rounds every item in the same place on
// average, so that a machine that slows down evenly slows all of them alike.
#include "harness/measure/interleave.h"

#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using Order = std::vector<std::size_t>;

TEST(RoundOrder, Alternates) {
  for (const std::int64_t round : {0, 2, 4, 1000}) {
    EXPECT_EQ(round_order(3, round), (Order{0, 1, 2})) << round;
  }
  for (const std::int64_t round : {1, 3, 5, 999}) {
    EXPECT_EQ(round_order(3, round), (Order{2, 1, 0})) << round;
  }
}

TEST(RoundOrder, OfNothingAndOfOneItem) {
  for (const std::int64_t round : {0, 1}) {
    EXPECT_EQ(round_order(0, round), Order{});
    EXPECT_EQ(round_order(1, round), Order{0});
  }
}

TEST(RoundOrder, DriftAddsTheSameToAllItemsOverTwoRounds) {
  for (const std::size_t items : {2u, 3u, 4u, 7u}) {
    std::vector<double> sums(items, 0.0);
    double time = 0;
    for (std::int64_t round = 0; round < 2; ++round) {
      for (const std::size_t item : round_order(items, round)) sums[item] += time++;
    }
    for (const double sum : sums) EXPECT_EQ(sum, sums[0]) << items;
  }
}

}  // namespace
}  // namespace lossgrid
