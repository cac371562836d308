// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/dynamic_partition.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "drawn_inputs.h"
#include "expect_error.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {
namespace {

using Sequences = std::vector<std::int64_t>;

const Grid kDynamic{.cp = 2, .dp = 2, .cp_layout = CpLayout::dynamic};

Problem batch_of(const std::string& text) {
  return drawn(text, -3.0);
}

std::int64_t longest_in(const Problem& problem, const MicrobatchPacks& microbatch) {
  std::int64_t longest = 0;
  for (const MicrobatchPlan& plan : microbatch.packs) {
    for (const std::int64_t i : plan.sequences) longest = std::max(longest, problem.lengths[i]);
  }
  return longest;
}

TEST(DynamicPartition, ShareOfTheLongestSequenceBoundsThatOfEveryOne) {
  EXPECT_EQ(dynamic_cp(kDynamic, 16, 16), 4);
  EXPECT_EQ(dynamic_cp(kDynamic, 9, 16), 4);  // 9 / 2 > 4
  EXPECT_EQ(dynamic_cp(kDynamic, 8, 16), 2);
  EXPECT_EQ(dynamic_cp(kDynamic, 5, 16), 2);
  EXPECT_EQ(dynamic_cp(kDynamic, 4, 16), 1);
  EXPECT_EQ(dynamic_cp(kDynamic, 0, 16), 1);
  EXPECT_EQ(dynamic_cp(kDynamic, 0, 0), 1);
  const Grid six{.cp = 6, .cp_layout = CpLayout::dynamic};
  EXPECT_EQ(dynamic_cp(six, 12, 24), 3);
  EXPECT_EQ(dynamic_cp(six, 13, 24), 6);
}

TEST(DynamicPartition, CoversEverySequenceOnceWithUnitsTogether) {
  std::set<int> sizes;
  int dummies = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const int sequences = seed % 9;
    const int microbatches = 1 + seed % 4;
    const int unit = 1 + seed % 2;
    const Problem problem =
        batch_of(fmt::format("lens=lognormal seq_len=40 vocab=8 seqs={} seed={} microbatches={}",
                             sequences, seed, microbatches));
    const auto plans = dynamic_partition(problem, kDynamic, unit);
    ASSERT_EQ(plans.size(), static_cast<std::size_t>(microbatches));
    Sequences all;
    std::int64_t most = 0;
    for (const std::int64_t length : problem.lengths) most = std::max(most, length);
    for (std::size_t m = 0; m < plans.size(); ++m) {
      sizes.insert(plans[m].cp);
      EXPECT_EQ(plans[m].packs.size() * static_cast<std::size_t>(plans[m].cp), 4u);
      EXPECT_EQ(plans[m].cp, dynamic_cp(kDynamic, longest_in(problem, plans[m]), most));
      for (const MicrobatchPlan& plan : plans[m].packs) {
        EXPECT_EQ(plan.index, static_cast<int>(m));
        EXPECT_EQ(plan.sequences.empty(), sequences == 0);
        EXPECT_LE(plan.sequences.size(), static_cast<std::size_t>(plan.slots));
        dummies += plan.dummy ? 1 : 0;
        if (plan.dummy) continue;
        for (const std::int64_t i : plan.sequences) {
          all.push_back(i);
          const std::int64_t first = i - i % unit;
          EXPECT_EQ(std::count(plan.sequences.begin(), plan.sequences.end(), first), 1);
        }
      }
    }
    std::sort(all.begin(), all.end());
    Sequences wanted(static_cast<std::size_t>(sequences));
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_EQ(all, wanted);
  }
  EXPECT_EQ(sizes, (std::set<int>{1, 2, 4}));
  EXPECT_GT(dummies, 0);
}

TEST(DynamicPartition, IsThePartitionByMicrobatchOnAStaticGrid) {
  const Problem problem = batch_of("lens=5+8+2+3+9 vocab=8 microbatches=3");
  const Grid grid{.cp = 2, .dp = 2};
  const auto by_rank = partition(problem, 2, 1);
  const auto plans = plan_microbatches(problem, grid, 1);
  ASSERT_EQ(plans.size(), 3u);
  for (std::size_t m = 0; m < 3; ++m) {
    EXPECT_EQ(plans[m].cp, 2);
    ASSERT_EQ(plans[m].packs.size(), 2u);
    for (std::size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(plans[m].packs[d].sequences, by_rank[d][m].sequences);
      EXPECT_EQ(plans[m].packs[d].dummy, by_rank[d][m].dummy);
    }
  }
}

TEST(DynamicPartition, APackHasNoLayoutWithoutTheSizeOfItsMicrobatch) {
  const Problem problem = batch_of("lens=5+8 vocab=8");
  expect_bad_input([&] { pack(problem, kDynamic); }, {"no CP size of its own on a dynamic grid"});
}

}  // namespace
}  // namespace lossgrid
