// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/partition.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "drawn_inputs.h"
#include "expect_error.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {
namespace {

using Ints = std::vector<std::int64_t>;
using Plans = std::vector<std::vector<MicrobatchPlan>>;

/// Returns a case with all inputs, as the runner has it before it splits it.
Problem whole_batch(const std::string& text) {
  return drawn(text, -3.0);
}

/// Sequences of all plans that are no dummies, in the order of the plans.
Ints covered(const Plans& plans) {
  Ints all;
  for (const auto& of_rank : plans) {
    for (const MicrobatchPlan& plan : of_rank) {
      if (!plan.dummy) all.insert(all.end(), plan.sequences.begin(), plan.sequences.end());
    }
  }
  return all;
}

TEST(Partition, IsTheWholeInOrderForOneRankAndOneMicrobatch) {
  const Plans plans = partition(whole_batch("lens=5+8+0+3 vocab=8"), 1, 1);
  ASSERT_EQ(plans.size(), 1u);
  ASSERT_EQ(plans[0].size(), 1u);
  EXPECT_EQ(plans[0][0].sequences, (Ints{0, 1, 2, 3}));
  EXPECT_FALSE(plans[0][0].dummy);
}

TEST(Partition, CoversEverySequenceOnceWithUnitsTogether) {
  int dummies = 0;
  int empty_ranks = 0;
  int unequal = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const int sequences = seed % 9;  // odd numbers as well
    const int dp = 1 + seed % 3;
    const int microbatches = 1 + seed % 4;
    const int unit = 1 + seed % 2;
    const Problem problem =
        whole_batch("lens=uniform seq_len=6 vocab=8 seqs=" + std::to_string(sequences) + " seed=" +
                    std::to_string(seed) + " microbatches=" + std::to_string(microbatches));
    const Plans plans = partition(problem, dp, unit);
    ASSERT_EQ(plans.size(), static_cast<std::size_t>(dp));
    Ints all = covered(plans);
    std::sort(all.begin(), all.end());
    Ints wanted(static_cast<std::size_t>(sequences));
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_EQ(all, wanted);
    std::size_t smallest = 100;
    std::size_t largest = 0;
    for (const auto& of_rank : plans) {
      ASSERT_EQ(of_rank.size(), static_cast<std::size_t>(microbatches));
      const auto has_some = [](const MicrobatchPlan& plan) { return !plan.sequences.empty(); };
      const auto first = std::find_if(of_rank.begin(), of_rank.end(), [&](const auto& plan) {
        return has_some(plan) && !plan.dummy;
      });
      if (first == of_rank.end()) {
        EXPECT_TRUE(std::none_of(of_rank.begin(), of_rank.end(), has_some));
        ++empty_ranks;
        continue;
      }
      const auto most = std::max_element(of_rank.begin(), of_rank.end(),
                                         [](const MicrobatchPlan& a, const MicrobatchPlan& b) {
                                           return a.sequences.size() < b.sequences.size();
                                         });
      for (const MicrobatchPlan& plan : of_rank) {
        EXPECT_TRUE(std::is_sorted(plan.sequences.begin(), plan.sequences.end()));
        ASSERT_FALSE(plan.sequences.empty());
        EXPECT_EQ(plan.slots, static_cast<std::int64_t>(most->sequences.size()));
        if (plan.dummy) {
          EXPECT_EQ(plan.sequences, first->sequences);
          ++dummies;
          continue;
        }
        smallest = std::min(smallest, plan.sequences.size());
        largest = std::max(largest, plan.sequences.size());
        for (const std::int64_t i : plan.sequences) {
          if (unit == 1 || (i ^ 1) >= sequences) continue;
          EXPECT_EQ(std::count(plan.sequences.begin(), plan.sequences.end(), i ^ 1), 1);
        }
      }
    }
    unequal += smallest < largest ? 1 : 0;
  }
  EXPECT_GT(dummies, 20);
  EXPECT_GT(empty_ranks, 10);
  EXPECT_GT(unequal, 10);
}

TEST(Partition, DealsEvenlyOverRanksAndMicrobatches) {
  const Problem problem = whole_batch("lens=uniform seq_len=1 seqs=6000 vocab=8 microbatches=3");
  for (const auto& of_rank : partition(problem, 2, 1)) {
    int index = 0;
    for (const MicrobatchPlan& plan : of_rank) {
      EXPECT_EQ(plan.index, index++);
      EXPECT_NEAR(static_cast<double>(plan.sequences.size()), 1000, 120);
    }
  }
}

TEST(Partition, RefusesNoRanks) {
  expect_bad_input([] { partition(whole_batch("lens=5 vocab=8"), 0, 1); }, {"dp = 0"});
}

TEST(GroupedByPack, CountsPacksOfEveryRankAndTheirTokens) {
  // Three valid tokens in one pack, none in the second, two in the third; a dummy and an empty one.
  const Problem problem =
      whole_batch("lens=3+2+2+3 mask=all sample_mask=1101 vocab=8 microbatches=3");
  const Plans plans{{{{0, 1}, false, 2, 0}, {{2}, false, 2, 1}, {{0, 1}, true, 2, 2}},
                    {{{3}, false, 1, 0}, {{3}, true, 1, 1}, {{}, false, 1, 2}}};
  const std::shared_ptr<const Problem> grouped = grouped_by_pack(problem, plans);
  EXPECT_EQ(grouped->groups, (Ints{0, 0, 1, 3}));
  EXPECT_EQ(grouped->group_count, 6);
  EXPECT_EQ(grouped->group_tokens, (Ints{3, 3, 0, 2}));
  EXPECT_EQ(grouped->denominators.all_groups, 6);
  EXPECT_EQ(grouped->denominators.trained_groups, 2);
  EXPECT_EQ(take_part(*grouped, plans[1][1], 3, 2).groups, (Ints{3}));
}

TEST(TakePart, PicksRowsWithTheirLogitsAndInputs) {
  const Problem problem =
      whole_batch("lens=5+8+0+3 mask=all sample_mask=1011 vocab=19 global_valid_toks=50");
  const Problem part = take_part(problem, {{1, 2, 3}, false, 5, 3}, 4, 2);
  EXPECT_EQ(part.spec, problem.spec);
  EXPECT_EQ(part.source, problem.source);
  EXPECT_EQ(part.lengths, (Ints{8, 0, 3}));
  EXPECT_EQ(part.cu_seqlens, (Ints{0, 8, 8, 11}));
  EXPECT_EQ(part.sample_mask, (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(part.denominators, problem.denominators);
  EXPECT_EQ(part.denominators.valid_tokens, 50);
  EXPECT_EQ(part.microbatch.count, 4);
  EXPECT_EQ(part.microbatch.index, 3);
  EXPECT_EQ(part.microbatch.dp, 2);
  EXPECT_EQ(part.microbatch.slots, 5);
  EXPECT_FALSE(part.microbatch.dummy);
  EXPECT_EQ(part.origin_sequence, (Ints{1, 2, 3}));
  ASSERT_EQ(part.origin_row.size(), 11u);
  std::vector<float> own(19);
  std::vector<float> whole(19);
  std::vector<double> wide(4);
  for (std::int64_t t = 0; t < 11; ++t) {
    EXPECT_EQ(part.whole_row(t), t + 5);
    EXPECT_EQ(part.input_ids[t], problem.input_ids[t + 5]);
    EXPECT_EQ(part.token_mask[t], problem.token_mask[t + 5]);
    part.logits->read(t, 0, std::span<float>(own));
    problem.logits->read(t + 5, 0, std::span<float>(whole));
    EXPECT_EQ(own, whole);
    part.logits->read(t, 7, std::span<double>(wide));
    EXPECT_EQ(wide[3], whole[10]);
    for (int k = 0; k < kTokenInputs; ++k) {
      const float value = problem.inputs[k][t + 5];
      EXPECT_TRUE(part.inputs[k][t] == value ||
                  (std::isnan(value) && std::isnan(part.inputs[k][t])));
    }
  }
  EXPECT_EQ(part.rewards[2], problem.rewards[3]);
}

TEST(TakePart, NamesRowsOfTheWholeForAPartOfAPart) {
  const Problem problem = whole_batch("lens=5+8+2+3 vocab=8");
  const Problem half = take_part(problem, {{1, 3}, false}, 1, 2);
  const Problem last = take_part(half, {{1}, false}, 1, 1);
  EXPECT_EQ(last.origin_sequence, (Ints{3}));
  EXPECT_EQ(last.origin_row, (Ints{15, 16, 17}));
  std::vector<float> own(8);
  std::vector<float> whole(8);
  last.logits->read(1, 0, std::span<float>(own));
  problem.logits->read(16, 0, std::span<float>(whole));
  EXPECT_EQ(own, whole);
}

/// Facts about a row of the whole: its target, advantage and the reward of its sequence.
struct Prediction {
  std::int32_t target;
  float advantage;
  float reward;
  friend bool operator==(const Prediction&, const Prediction&) = default;
};

void collect_valid(const Problem& problem, int cp, std::map<std::int64_t, Prediction>& out) {
  const PackedBatch batch = pack(problem, Grid{1, cp});
  const ShiftedBatch shifted = shift_targets(batch);
  for (std::int64_t i = 0; i < batch.sequences(); ++i) {
    for (std::int64_t o = 0; o < batch.padded_length(i); ++o) {
      const std::int64_t row = batch.cu_seqlens_padded[i] + o;
      if (shifted.valid[row] == 0) continue;
      const Prediction found{shifted.targets[row], shifted.inputs[0][row], batch.rewards[i]};
      EXPECT_TRUE(out.emplace(problem.whole_row(problem.cu_seqlens[i] + o), found).second);
    }
  }
}

TEST(TakePart, PartsTogetherPredictWhatTheWholePredicts) {
  for (int seed = 0; seed < 30; ++seed) {
    const std::string cu = seed % 2 == 0 ? "true" : "padded";
    const Problem problem = whole_batch(
        "lens=uniform seqs=7 seq_len=9 mask=ragged sample_mask=1101111 vocab=40 bin_multiple=12 "
        "microbatches=3 cu=" +
        cu + " seed=" + std::to_string(seed));
    std::map<std::int64_t, Prediction> whole;
    collect_valid(problem, 1, whole);
    EXPECT_EQ(static_cast<std::int64_t>(whole.size()), problem.denominators.valid_tokens);
    std::map<std::int64_t, Prediction> parts;
    for (const auto& of_rank : partition(problem, 2, 1 + seed % 2)) {
      for (const MicrobatchPlan& plan : of_rank) {
        collect_valid(take_part(problem, plan, 3, 2), 2, parts);  // of dummies nothing
      }
    }
    EXPECT_EQ(parts, whole);
  }
}

TEST(TakePart, CountsNothingForADummy) {
  for (const std::string poison : {"nan", "none"}) {
    const Problem problem = whole_batch("lens=5+8+3 mask=all vocab=8 poison=" + poison);
    const Problem dummy = take_part(problem, {{0, 2}, true}, 3, 1);
    EXPECT_TRUE(dummy.microbatch.dummy);
    EXPECT_EQ(dummy.denominators, problem.denominators);
    EXPECT_EQ(dummy.origin_sequence, (Ints{0, 2}));
    const PackedBatch batch = pack(dummy, Grid{1, 2});
    EXPECT_TRUE(batch.microbatch.dummy);
    EXPECT_EQ(batch.microbatch.count, 3);
    EXPECT_EQ(batch.sample_mask, (std::vector<std::uint8_t>{0, 0}));
    const ShiftedBatch shifted = shift_targets(batch);
    EXPECT_EQ(std::count(shifted.valid.begin(), shifted.valid.end(), 0), 12);
    EXPECT_EQ(std::count(shifted.real.begin(), shifted.real.end(), 0), 12);
    // True data, but nothing to read where unread slots are poisoned.
    EXPECT_EQ(batch.input_ids[1], problem.input_ids[1]);
    for (const auto& values : dummy.inputs) {
      for (const float value : values) EXPECT_EQ(std::isnan(value), poison == "nan");
    }
    EXPECT_EQ(std::isnan(dummy.rewards[0]), poison == "nan");
  }
}

TEST(TakePart, MakesAnEmptyPartThatWorksEverywhere) {
  for (const std::string cu : {"true", "padded"}) {
    const Problem problem = whole_batch("lens=5+8 vocab=8 bin_multiple=32 pad_multiple=4 cu=" + cu);
    const Problem part = take_part(problem, {}, 2, 3);
    EXPECT_EQ(part.sequences(), 0);
    EXPECT_EQ(part.tokens(), 0);
    EXPECT_EQ(part.cu_seqlens, (Ints{0}));
    EXPECT_EQ(part.denominators, problem.denominators);
    EXPECT_TRUE(part.row_targets().empty());
    EXPECT_TRUE(part.row_valid().empty());
    for (const int cp : {1, 2}) {
      const Grid grid{2, cp, 3};
      EXPECT_NO_THROW(require_fits(part, grid));
      const PackedBatch batch = pack(part, Grid{1, cp});
      EXPECT_EQ(batch.cu_seqlens, (Ints{0}));
      EXPECT_EQ(batch.cu_seqlens_padded, (Ints{0}));
      EXPECT_TRUE(batch.input_ids.empty());
      EXPECT_TRUE(batch.input_lengths.empty());
      EXPECT_EQ(shift_targets(batch).rows(), 0u);
      EXPECT_TRUE(cp_rows(batch, cp, 0).empty());
      float untouched = 7;
      fill_logits_shard(part, grid, 0, 0, &untouched);
      EXPECT_EQ(untouched, 7);
    }
    for (const auto& of_rank : partition(part, 2, 2)) EXPECT_TRUE(of_rank[0].sequences.empty());
  }
}

}  // namespace
}  // namespace lossgrid
