// SPDX-License-Identifier: Apache-2.0
// Problems of heads without a vocabulary: rows, masks, shards, and inputs drawn around values.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "drawn_inputs.h"
#include "expect_error.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/batch/value_inputs.h"

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

/// Values of 3000 states in eighths, with what is drawn around them.
struct DrawnStates {
  DrawnStates(const std::string& drift, double clip, double bend) {
    ObjectiveNeeds needs;
    needs.value_clip = clip;
    needs.value_bend = bend;
    const CaseSpec spec = parse_case("head=value drift=" + drift);
    for (std::int64_t t = 0; t < 3000; ++t) {
      const double value = std::round(8 * std::sin(static_cast<double>(t))) / 8;
      const DrawnValues drawn = drawn_values(spec, needs, t, value);
      const double old_value = static_cast<float>(drawn.old_value);
      const double clipped = std::clamp(value, old_value - clip, old_value + clip);
      const double target = static_cast<float>(drawn.returns);
      const double apart = std::abs(value - target);
      const double apart_clipped = std::abs(clipped - target);
      below.push_back(value < old_value - clip ? 1 : 0);
      above.push_back(value > old_value + clip ? 1 : 0);
      at_end.push_back(std::abs(value - old_value) == clip ? 1 : 0);
      tie.push_back(value != clipped && apart == apart_clipped ? 1 : 0);
      further.push_back(apart_clipped > apart ? 1 : 0);
      far.push_back(apart > bend ? 1 : 0);
      equal.push_back(apart == 0 && value == old_value ? 1 : 0);
    }
  }

  std::vector<double> below, above, at_end, tie, further, far, equal;
};

double mean_of(const std::vector<double>& numbers) {
  return share(numbers, 1, 1);
}

TEST(DrawnValues, LieOnEverySideOfClipRangesAndReturns) {
  const DrawnStates near("near", 0.5, 10);
  EXPECT_NEAR(mean_of(near.below), 0.2, 0.05);
  EXPECT_NEAR(mean_of(near.above), 0.2, 0.05);
  EXPECT_NEAR(mean_of(near.at_end), 0.2, 0.05);
  EXPECT_GT(mean_of(near.tie), 0.02);
  EXPECT_GT(mean_of(near.further), 0.08);
  EXPECT_EQ(mean_of(near.far), 0);
  EXPECT_NEAR(mean_of(DrawnStates("far", 0.5, 10).far), 1.0 / 3, 0.05);
  EXPECT_EQ(mean_of(DrawnStates("equal", 0.5, 10).equal), 1);
}

TEST(DrawnValues, AtEdgesAreAtOrBesideThem) {
  const DrawnStates edge("edge", 0.5, 1.5);
  EXPECT_GT(mean_of(edge.at_end), 0.08);
  EXPECT_GT(mean_of(edge.tie), 0.02);
  EXPECT_GT(mean_of(edge.far), 0.02);
}

}  // namespace
}  // namespace lossgrid
