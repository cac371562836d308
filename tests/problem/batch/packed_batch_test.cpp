// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/packed_batch.h"

#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lossgrid {
namespace {

using Ints = std::vector<std::int64_t>;

TEST(Layout, WorkedExample) {
  const PackedLayout layout = make_layout({5, 8, 1, 3}, 1, 1, Grid{1, 2});
  EXPECT_EQ(layout.cu, (Ints{0, 5, 13, 14, 17}));
  EXPECT_EQ(layout.cu_padded, (Ints{0, 8, 16, 20, 24}));
  EXPECT_EQ(layout.padded_tokens(), 24);
}

TEST(Layout, TheLastSequenceFillsTheBin) {
  EXPECT_EQ(make_layout({5, 8, 1, 3}, 1, 16, Grid{1, 2}).cu_padded, (Ints{0, 8, 16, 20, 32}));
  EXPECT_EQ(make_layout({5, 8, 1, 3}, 1, 32, Grid{1, 1}).cu_padded, (Ints{0, 5, 13, 14, 32}));
  EXPECT_EQ(make_layout({16, 16}, 1, 32, Grid{1, 4}).cu_padded, (Ints{0, 16, 32}));
}

TEST(Layout, PaddingIsTheLeastCommonMultipleOfCaseAndGrid) {
  EXPECT_EQ(make_layout({1}, 1, 1, Grid{1, 1}).cu_padded, (Ints{0, 1}));
  EXPECT_EQ(make_layout({1}, 6, 1, Grid{1, 1}).cu_padded, (Ints{0, 6}));
  EXPECT_EQ(make_layout({1}, 6, 1, Grid{1, 2}).cu_padded, (Ints{0, 12}));
  EXPECT_EQ(make_layout({1}, 1, 1, Grid{1, 8}).cu_padded, (Ints{0, 16}));
  // The bin is filled to lcm(10, 16): each sequence stays divisible by 2 cp.
  EXPECT_EQ(make_layout({1, 1}, 1, 10, Grid{1, 8}).cu_padded, (Ints{0, 16, 80}));
}

TEST(Layout, SequenceParallelismPadsToEqualPartsOfACpRank) {
  // 2 cp tp = 8 divides every sequence, so that the 16 rows of a CP rank make two parts of 8.
  EXPECT_EQ(make_layout({5, 8, 1, 3}, 1, 1, Grid{2, 2, 1, true}).cu_padded,
            (Ints{0, 8, 16, 24, 32}));
  EXPECT_EQ(make_layout({5, 8, 1, 3}, 1, 1, Grid{2, 1, 1, true}).cu_padded,
            (Ints{0, 6, 14, 16, 20}));
  EXPECT_EQ(make_layout({5, 8, 1, 3}, 1, 1, Grid{3, 1, 1, true}).cu_padded,
            (Ints{0, 6, 15, 18, 21}));
  EXPECT_EQ(make_layout({5}, 6, 1, Grid{4, 2, 1, true}).cu_padded, (Ints{0, 48}));
  EXPECT_EQ(make_layout({5, 1}, 1, 24, Grid{2, 2, 1, true}).cu_padded, (Ints{0, 8, 24}));
  // One rank along an axis has nothing to split, nor do ranks without SP; dp does not matter.
  EXPECT_EQ(make_layout({5}, 1, 1, Grid{1, 2, 1, true}).cu_padded, (Ints{0, 8}));
  EXPECT_EQ(make_layout({5}, 1, 1, Grid{1, 1, 1, true}).cu_padded, (Ints{0, 5}));
  EXPECT_EQ(make_layout({5}, 1, 1, Grid{4, 2, 3}).cu_padded, (Ints{0, 8}));
}

TEST(Layout, EmptySequencesAndPacks) {
  EXPECT_EQ(make_layout({0, 3, 0}, 4, 1, Grid{1, 1}).cu_padded, (Ints{0, 0, 4, 4}));
  EXPECT_EQ(make_layout({0, 3, 0}, 4, 8, Grid{1, 1}).cu_padded, (Ints{0, 0, 4, 8}));
  EXPECT_EQ(make_layout({}, 4, 8, Grid{1, 2}).cu_padded, (Ints{0}));
  EXPECT_EQ(make_layout({0}, 4, 8, Grid{1, 2}).cu_padded, (Ints{0, 0}));
}

TEST(Layout, OverflowIsRefused) {
  expect_bad_input(
      [] {
        make_layout({2147483647, 1}, 1, 1, Grid{1, 1});
      },
      {"padded lengths", "2147483647"});
  expect_bad_input(
      [] {
        make_layout({2147483647}, 1 << 30, 1, Grid{1, 1});
      },
      {"padded", "1073741824"});
  expect_bad_input([] { make_layout({1}, (1 << 30) - 1, 1 << 30, Grid{1, 3}); }, {"tokens padded"});
  expect_bad_input(
      [] {
        make_layout({1}, (1 << 30) - 1, (1 << 30) - 3, Grid{1, 4095});
      },
      {"bin_multiple", "2^62"});
  expect_bad_input(
      [] {
        make_layout({1 << 30}, 1, 1, Grid{3, 1 << 29, 1, true});
      },
      {"tokens padded"});
  expect_bad_input([] { make_layout({-1}, 1, 1, Grid{1, 1}); }, {"sequence 0", "-1"});
  expect_bad_input([] { make_layout({1}, 0, 1, Grid{1, 1}); }, {"pad_multiple"});
  expect_bad_input([] { make_layout({1}, 1, 0, Grid{1, 1}); }, {"bin_multiple"});
  expect_bad_input([] { make_layout({1}, 1, 1, Grid{1, 0}); }, {"cp = 0"});
}

}  // namespace
}  // namespace lossgrid
