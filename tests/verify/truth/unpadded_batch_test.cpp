// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/unpadded_batch.h"

#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TEST(UnpaddedBatch, CountsItsOwnDenominators) {
  // Valid are tokens 1 and 2 of sequence 0 and token 3 of sequence 3: a first token is never a
  // target, sequence 1 is masked and sequence 2 has one token.
  Problem problem =
      make_problem(parse_case("lens=3+4+1+4 mask=111+1111+1+0001 sample_mask=1011 vocab=8"));
  const Denominators counted{3, 3, 0};
  EXPECT_EQ(unpadded_batch(problem).denominators, counted);
  problem.rewards = {-1, 2, 0.5, 0.25};
  EXPECT_EQ(unpadded_batch(problem).denominators, (Denominators{3, 3, 1}));
  // Wrong counts of the problem change nothing.
  problem.denominators = {77, 5, 9};
  EXPECT_EQ(unpadded_batch(problem).denominators, (Denominators{3, 3, 1}));
  // Numbers that the case states stand, each for itself.
  problem.spec.global_valid_toks = 100;
  EXPECT_EQ(unpadded_batch(problem).denominators, (Denominators{100, 3, 1}));
  problem.spec.global_valid_toks = 0;
  problem.spec.global_valid_seqs = 20;
  EXPECT_EQ(unpadded_batch(problem).denominators, (Denominators{3, 20, 1}));
  // Sequences with a target and all of them, where the objective needs them.
  problem.denominators.all_sequences = 1;
  EXPECT_EQ(unpadded_batch(problem).denominators, (Denominators{3, 20, 1, 20, 20}));
  problem.spec.global_valid_seqs = 0;
  EXPECT_EQ(unpadded_batch(problem).denominators, (Denominators{3, 3, 1, 2, 4}));
  // Groups are counted, whatever counts the problem holds.
  problem.groups = {0, 0, 0, 1};
  problem.group_count = 2;
  problem.group_tokens = {7, 7, 7, 7};
  EXPECT_EQ(unpadded_batch(problem).group_tokens, (std::vector<std::int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(unpadded_batch(problem).denominators, (Denominators{3, 3, 1, 2, 4, 2, 2}));
}

}  // namespace
}  // namespace lossgrid
