// SPDX-License-Identifier: Apache-2.0
// Order of rounds: every item once, the same order for the same seed, and no item more often in one
// place than by chance.
#include "harness/measure/interleave.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using Order = std::vector<std::size_t>;

Order order_of(std::size_t items, std::uint64_t seed, std::int64_t round) {
  Order order(items, 77);
  round_order(seed, round, order);
  return order;
}

TEST(RoundOrder, HasEveryItemOnce) {
  for (const std::size_t items : {0u, 1u, 2u, 5u, 33u}) {
    Order wanted(items);
    std::iota(wanted.begin(), wanted.end(), std::size_t{0});
    for (std::int64_t round = 0; round < 20; ++round) {
      Order order = order_of(items, 3, round);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, wanted);
    }
  }
}

TEST(RoundOrder, IsAFunctionOfSeedAndRound) {
  EXPECT_EQ(order_of(8, 5, 2), order_of(8, 5, 2));
  EXPECT_NE(order_of(8, 5, 2), order_of(8, 5, 3));
  EXPECT_NE(order_of(8, 5, 2), order_of(8, 6, 2));
}

TEST(RoundOrder, EveryPermutationIsAsLikely) {
  std::map<Order, int> counts;
  constexpr int kRounds = 6000;
  for (std::int64_t round = 0; round < kRounds; ++round) ++counts[order_of(3, 1, round)];
  ASSERT_EQ(counts.size(), 6u);
  // 1000 expected with a standard deviation of 29.
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, kRounds / 6, 150);
}

}  // namespace
}  // namespace lossgrid
