// SPDX-License-Identifier: Apache-2.0
// Problems of heads without a vocabulary: rows, masks, shards.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "harness/problem/batch/sharding.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

using HeadBits = std::vector<std::uint8_t>;

TEST(Heads, HaveOneNumberARow) {
  const CaseSpec spec = parse_case("head=value lens=5+8");
  EXPECT_EQ(spec.vocab, 1);
  EXPECT_EQ(parse_case(format_case(spec)), spec);
  EXPECT_EQ(parse_case("vocab=1 head=score lens=5").vocab, 1);
  expect_bad_input([] { problem_of("head=value vocab=5 lens=5"); },
                   {"head = value has no vocabulary", "vocab = 5"});
  expect_bad_input([] { problem_of("head=score top_k=1 lens=5"); },
                   {"top_k = 1 belongs to a vocabulary", "head = score"});
}

TEST(Heads, AreWholeOnEveryTpRank) {
  for (int rank = 0; rank < 4; ++rank) {
    const VocabShard shard = vocab_shard(1, 4, rank);
    EXPECT_EQ(shard.begin, 0);
    EXPECT_EQ(shard.end, 1);
    EXPECT_EQ(shard.width, 1);
  }
  EXPECT_EQ(vocab_shard(2, 4, 3).valid(), 0);
  EXPECT_NO_THROW(require_fits(problem_of("head=value lens=5+8"), Grid{8, 2}));
}

TEST(Heads, TakeTheLastMaskedTokenOfASequenceForScores) {
  const Problem scores = problem_of("head=score lens=4+3+1+0+2 mask=1101+110+1++00");
  EXPECT_EQ(scores.token_mask, (HeadBits{0, 0, 0, 1, 0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(scores.row_valid(), scores.token_mask);
  EXPECT_EQ(scores.denominators.valid_tokens, 3);
  const PackedBatch batch = pack(scores, Grid{1, 2});
  const ShiftedBatch rows = shift_targets(batch);
  EXPECT_EQ(rows.valid, (HeadBits{0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rows.targets[8], 0);
  EXPECT_EQ(rows.targets[9], -1);

  const Problem values = problem_of("head=value lens=4+3 mask=1101+110");
  EXPECT_EQ(values.row_valid(), (HeadBits{1, 0, 1, 0, 1, 0, 0}));
}

}  // namespace
}  // namespace lossgrid
