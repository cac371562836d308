// SPDX-License-Identifier: Apache-2.0
#include "harness/device/kernel/rows_on_chip.h"

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

constexpr std::int64_t kTurn = kBlockThreads;

TEST(RowsOnChip, ARowThatFitsHasOneBlock) {
  const RowsOnChip shape = rows_on_chip(100, 100, kMostClusterBlocks);
  EXPECT_EQ(shape.blocks, 1);
  EXPECT_EQ(shape.kept, 100);
  EXPECT_EQ(shape.shared_bytes, 1600);
}

TEST(RowsOnChip, WithoutClustersOneBlockKeepsWhatFits) {
  const RowsOnChip shape = rows_on_chip(1000, 100, 1);
  EXPECT_EQ(shape.blocks, 1);
  EXPECT_EQ(shape.kept, 100);
  EXPECT_EQ(shape.shared_bytes, 1600);
}

TEST(RowsOnChip, ALongRowHasTheFewestBlocksThatHaveRoom) {
  // Room for three vectors of each thread.
  EXPECT_EQ(rows_on_chip(3 * kTurn + 1, 3 * kTurn + 9, 8).blocks, 1);
  const RowsOnChip two = rows_on_chip(3 * kTurn + 10, 3 * kTurn + 9, 8);
  EXPECT_EQ(two.blocks, 2);
  EXPECT_EQ(two.kept, 3 * kTurn + 10);
  EXPECT_EQ(two.shared_bytes, 2 * kTurn * kVectorBytes);
  EXPECT_EQ(rows_on_chip(6 * kTurn, 3 * kTurn, 8).blocks, 2);
  const RowsOnChip four = rows_on_chip(6 * kTurn + 1, 3 * kTurn, 8);
  EXPECT_EQ(four.blocks, 4);
  EXPECT_EQ(four.shared_bytes, 2 * kTurn * kVectorBytes);
}

TEST(RowsOnChip, TheMostBlocksKeepWhatFits) {
  const RowsOnChip shape = rows_on_chip(100 * kTurn, 3 * kTurn + 9, 8);
  EXPECT_EQ(shape.blocks, 8);
  EXPECT_EQ(shape.kept, 3 * 8 * kTurn);
  EXPECT_EQ(shape.shared_bytes, 3 * kTurn * kVectorBytes);
}

}  // namespace
}  // namespace lossgrid
