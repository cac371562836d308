// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Replicas, ReturnTheMeanOverTheHolders) {
  ReplicaFindings found(2, 1);
  EXPECT_EQ(found.add(std::vector<double>{3, 5}, std::vector<std::uint8_t>{1, 1}, 0, 4, {}, 0), 4);
  EXPECT_EQ(found.add(std::vector<double>{3, 5}, std::vector<std::uint8_t>{0, 1}, 0, 4, {}, 0), 5);
  EXPECT_EQ(found.add(std::vector<double>{3, 5}, std::vector<std::uint8_t>{0, 0}, 0, 4, {}, 0), 0);
}

TEST(Replicas, CountElementsOfWhichTwoHoldersHaveOtherBits) {
  ReplicaFindings found(1, 3);
  const std::vector<std::uint8_t> all{1, 1, 1};
  found.add(std::vector<double>{1, 1, 1}, all, 0, 1, {0, -1, -1, 7}, 2);
  EXPECT_EQ(found.different, 0);
  found.add(std::vector<double>{1, 1, 1 + 1e-16}, all, 0, 1, {0, -1, -1, 8}, 2);
  EXPECT_EQ(found.different, 0);  // the same number
  found.add(std::vector<double>{0, -0.0, 1}, all, 0, 1, {0, -1, -1, 9}, 3);
  EXPECT_EQ(found.different, 1);
  EXPECT_THAT(found.first_different, HasSubstr("vocab id 9 after id 3: -0 on cp rank 1, 0 on"));
  found.add(std::vector<double>{0, 5, 0}, std::vector<std::uint8_t>{1, 0, 1}, 0, 1, {}, 0);
  EXPECT_EQ(found.different, 1);  // the second one holds no such element
}

TEST(Replicas, CountElementsWithoutHoldersOrWithOthers) {
  ReplicaFindings found(2, 1);
  const std::vector<double> values{1, 1};
  found.add(values, std::vector<std::uint8_t>{1, 0}, 0, 1, {0, -1, -1, 0}, 0);
  found.add(values, std::vector<std::uint8_t>{0, 1}, 0, 1, {0, -1, -1, 1}, 0);
  EXPECT_EQ(found.holders, 1);
  EXPECT_EQ(found.without + found.uneven, 0);
  found.add(values, std::vector<std::uint8_t>{0, 0}, 0, 1, {0, -1, -1, 2}, 0);
  found.add(values, std::vector<std::uint8_t>{1, 1}, 0, 1, {0, -1, -1, 3}, 0);
  EXPECT_EQ(found.without, 1);
  EXPECT_EQ(found.uneven, 1);
  EXPECT_EQ(found.first_misplaced, "vocab id 2 after id 0 is held by 0 of 2 ranks");
}

TEST(Replicas, AddUpInnerProductsOverShards) {
  ReplicaFindings one(2, 1);
  const std::vector<std::uint8_t> all{1, 1};
  one.add(std::vector<double>{2, 3}, all, 1, 5, {}, 0);  // 1 and 2 beside what stood there
  EXPECT_THAT(one.products, ElementsAre(1, 2, 5, 2, 4, 10, 5, 10, 25));
  ReplicaFindings other(2, 1);
  other.add(std::vector<double>{1, 0}, all, 0, 1, {}, 0);
  one.add(other);
  EXPECT_THAT(one.products, ElementsAre(2, 2, 6, 2, 4, 10, 6, 10, 26));
  EXPECT_EQ(one.different, 2);
  EXPECT_THAT(ReplicaProducts::of_numbers(2, 1, std::vector<double>{1, 2}, 5).of,
              ElementsAre(1, 2, 5, 2, 4, 10, 5, 10, 25));
}

}  // namespace
}  // namespace lossgrid
