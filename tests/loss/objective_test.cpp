// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/objective.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// Four sequences of three tokens, the last one masked as a whole. Sequences begin with a token
/// that nothing predicts.
PackedBatch four_sequences() {
  PackedBatch batch;
  batch.cu_seqlens = {0, 3, 6, 9, 12};
  batch.token_mask = {1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1};
  batch.sample_mask = {1, 1, 1, 0};
  return batch;
}

TEST(AsGradient, IsTheLargestFloat32BeyondIt) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(as_gradient(0.1), 0.1F);
  EXPECT_EQ(as_gradient(-1e39), -kLargest);
  EXPECT_EQ(as_gradient(HUGE_VAL), kLargest);
  EXPECT_EQ(as_gradient(-HUGE_VALF), -kLargest);
  EXPECT_TRUE(std::isnan(as_gradient(std::nan(""))));
}

TEST(BranchShares, AreThoseOfTokensSequencesOrPairs) {
  ObjectiveTruth truth;
  truth.branches = {{"pairs_tied", 1}, {"sequence_masked", 2}, {"unclipped", 3}};
  // 2 + 1 + 1 tokens, 3 sequences.
  EXPECT_THAT(truth.branch_shares(four_sequences()),
              ElementsAre(Pair("pairs_tied", 1 / 1.5), Pair("sequence_masked", 2.0 / 3),
                          Pair("unclipped", 0.75)));
}

TEST(BranchShares, EmptySetsHaveNone) {
  PackedBatch batch = four_sequences();
  batch.sample_mask = {0, 0, 0, 0};
  ObjectiveTruth truth;
  truth.branches = {{"sequence_masked", 0}, {"unclipped", 0}};
  EXPECT_THAT(truth.branch_shares(batch), IsEmpty());
}

}  // namespace
}  // namespace lossgrid
