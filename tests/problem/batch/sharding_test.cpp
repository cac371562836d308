// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/sharding.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lossgrid {
namespace {

using Ints = std::vector<std::int64_t>;

/// The worked example: sequences a, b, c, d with token k of sequence i named 10 i + k.
PackedBatch worked_example(std::int64_t bin_multiple) {
  const PackedLayout layout = make_layout({5, 8, 1, 3}, 1, bin_multiple, Grid{1, 2});
  PackedBatch batch;
  batch.cu_seqlens = layout.cu;
  batch.cu_seqlens_padded = layout.cu_padded;
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < layout.lengths[i]; ++k) batch.input_ids.push_back(10 * i + k);
  }
  batch.token_mask.assign(17, 1);
  batch.sample_mask.assign(4, 1);
  batch.input_lengths = layout.lengths;
  batch.inputs[0].assign(batch.input_ids.begin(), batch.input_ids.end());
  return batch;
}

Grid with_layout(int cp, CpLayout layout) {
  Grid grid{1, cp};
  grid.cp_layout = layout;
  return grid;
}

std::vector<std::int32_t> split_targets(const PackedBatch& batch, int cp_rank) {
  const ShiftedBatch shifted = shift_targets(batch);
  std::vector<std::int32_t> out;
  for (const std::int64_t row : cp_rows(batch, 2, cp_rank)) {
    out.push_back(shifted.targets[row]);
  }
  return out;
}

TEST(CpRows, WorkedExample) {
  const Ints cu{0, 8, 16, 20, 24};
  EXPECT_EQ(cp_rows(cu, Grid{1, 2}, 0), (Ints{0, 1, 6, 7, 8, 9, 14, 15, 16, 19, 20, 23}));
  EXPECT_EQ(cp_rows(cu, Grid{1, 2}, 1), (Ints{2, 3, 4, 5, 10, 11, 12, 13, 17, 18, 21, 22}));
}

TEST(CpRows, TargetsOfTheWorkedExampleAreShiftedBeforeTheSplit) {
  const PackedBatch batch = worked_example(1);
  EXPECT_EQ(split_targets(batch, 0),
            (std::vector<std::int32_t>{1, 2, -1, -1, 11, 12, 17, -1, -1, -1, 31, -1}));
  EXPECT_EQ(split_targets(batch, 1),
            (std::vector<std::int32_t>{3, 4, -1, -1, 13, 14, 15, 16, -1, -1, 32, -1}));
}

TEST(CpRows, BinFillMovesTokensToAnotherRank) {
  const PackedBatch batch = worked_example(32);
  EXPECT_EQ(batch.cu_seqlens_padded, (Ints{0, 8, 16, 20, 32}));
  const Ints rank0 = cp_rows(batch, 2, 0);
  EXPECT_EQ(Ints(rank0.begin() + 10, rank0.end()), (Ints{20, 21, 22, 29, 30, 31}));
  EXPECT_EQ(split_targets(batch, 0), (std::vector<std::int32_t>{1, 2, -1, -1, 11, 12, 17, -1, -1,
                                                                -1, 31, 32, -1, -1, -1, -1}));
  EXPECT_EQ(split_targets(batch, 1), (std::vector<std::int32_t>{3, 4, -1, -1, 13, 14, 15, 16, -1,
                                                                -1, -1, -1, -1, -1, -1, -1}));
}

TEST(CpRows, AreABijectionWithTheKnownInverse) {
  std::mt19937 random(3);
  for (const int cp : {1, 2, 3, 4, 8}) {
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<std::int64_t> lengths(1 + random() % 6);
      for (auto& length : lengths) length = random() % 4 == 0 ? 0 : random() % 70;
      const PackedLayout layout =
          make_layout(lengths, 1 + random() % 5, 1 + random() % 40, Grid{1, cp});
      std::vector<int> seen(static_cast<std::size_t>(layout.padded_tokens()), 0);
      std::vector<Ints> rows;
      for (int rank = 0; rank < cp; ++rank) {
        rows.push_back(cp_rows(layout.cu_padded, Grid{1, cp}, rank));
        ASSERT_EQ(static_cast<std::int64_t>(rows.back().size()) * cp, layout.padded_tokens());
        for (const std::int64_t row : rows.back()) ++seen[row];
      }
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
      // Offset o of sequence i: q = o div h, on rank q or 2 cp - 1 - q, at slot
      // cup[i] / cp + (q < cp ? 0 : h) + o mod h.
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const std::int64_t padded = layout.cu_padded[i + 1] - layout.cu_padded[i];
        const std::int64_t h = cp > 1 ? padded / (2 * cp) : padded;
        for (std::int64_t o = 0; o < padded; ++o) {
          const std::int64_t q = o / h;
          const std::int64_t rank = q < cp ? q : 2 * cp - 1 - q;
          const std::int64_t slot = layout.cu_padded[i] / cp + (q < cp ? 0 : h) + o % h;
          ASSERT_EQ(rows[rank][slot], layout.cu_padded[i] + o);
        }
      }
    }
  }
}

TEST(CpRows, LengthsThatDoNotSplitAreRefused) {
  expect_bad_input(
      [] {
        cp_rows(Ints{0, 8, 14}, Grid{1, 2}, 0);
      },
      {"sequence 1", "6", "zigzag cannot cut in 4"});
  expect_bad_input([] { cp_rows(Ints{0, 8}, Grid{1, 2}, 2); }, {"cp rank 2", "[0, 2)"});
  expect_bad_input(
      [] {
        cp_rows(Ints{0, 8, 15}, with_layout(3, CpLayout::contiguous_sequence), 0);
      },
      {"sequence 0", "8", "contiguous_sequence cannot cut in 3"});
  expect_bad_input(
      [] {
        cp_rows(Ints{0, 8, 14}, with_layout(3, CpLayout::ulysses), 0);
      },
      {"the pack has 14 rows", "ulysses cannot cut in 3"});
  expect_bad_input(
      [] {
        cp_rows(Ints{0, 8, 14}, with_layout(2, CpLayout::zigzag_row), 0);
      },
      {"the pack has 14 rows", "zigzag_row cannot cut in 4"});
}

struct LayoutExample {
  CpLayout layout;
  int cp;
  Ints cu_padded;
  std::vector<std::vector<std::int32_t>> targets;  // by rank
};

/// The worked example on paper: sequences of 5, 8, 1 and 3 tokens with ids 0.., 10.., 20 and 30...
TEST(CpRows, WorkedExampleInOtherLayouts) {
  const std::vector<LayoutExample> examples{
      {CpLayout::contiguous,
       2,
       {0, 6, 14, 16, 20},
       {{1, 2, 3, 4, -1, -1, 11, 12, 13, 14}, {15, 16, 17, -1, -1, -1, 31, 32, -1, -1}}},
      {CpLayout::contiguous_sequence,
       2,
       {0, 6, 14, 16, 20},
       {{1, 2, 3, 11, 12, 13, 14, -1, 31, 32}, {4, -1, -1, 15, 16, 17, -1, -1, -1, -1}}},
      {CpLayout::ulysses,
       3,
       {0, 5, 13, 14, 18},
       {{1, 2, 3, 4, -1, 11}, {12, 13, 14, 15, 16, 17}, {-1, -1, 31, 32, -1, -1}}},
      {CpLayout::zigzag_row,
       2,
       {0, 5, 13, 14, 20},
       {{1, 2, 3, 4, -1, 32, -1, -1, -1, -1}, {11, 12, 13, 14, 15, 16, 17, -1, -1, 31}}}};
  for (const LayoutExample& example : examples) {
    SCOPED_TRACE(name(example.layout));
    const Grid grid = with_layout(example.cp, example.layout);
    PackedBatch batch = worked_example(1);
    batch.cu_seqlens_padded = make_layout({5, 8, 1, 3}, 1, 1, grid).cu_padded;
    batch.cp_layout = example.layout;
    EXPECT_EQ(batch.cu_seqlens_padded, example.cu_padded);
    for (int rank = 0; rank < example.cp; ++rank) {
      EXPECT_EQ(shift_targets(batch).gather(cp_rows(batch, example.cp, rank)).targets,
                example.targets[static_cast<std::size_t>(rank)]);
    }
  }
}

TEST(CpRows, EveryLayoutHoldsEveryRowOnce) {
  std::mt19937 random(5);
  for (const CpLayoutRules& rules : kCpLayouts) {
    if (rules.layout == CpLayout::dynamic) continue;  // a pack has another one
    SCOPED_TRACE(rules.name);
    for (const int cp : {1, 2, 3, 8}) {
      for (const int tp : {1, 3}) {
        std::vector<std::int64_t> lengths(1 + random() % 6);
        for (auto& length : lengths) length = random() % 4 == 0 ? 0 : random() % 70;
        Grid grid = with_layout(cp, rules.layout);
        grid.tp = tp;
        grid.sp = true;
        const PackedLayout padded = make_layout(lengths, 1 + random() % 5, 1 + random() % 40, grid);
        std::vector<std::int64_t> all;
        for (int rank = 0; rank < cp; ++rank) {
          const Ints rows = cp_rows(padded.cu_padded, grid, rank);
          EXPECT_EQ(rows.size() % static_cast<std::size_t>(tp), 0u);  // equal parts with SP
          EXPECT_EQ(static_cast<std::int64_t>(rows.size()) * cp, padded.padded_tokens());
          all.insert(all.end(), rows.begin(), rows.end());
        }
        std::sort(all.begin(), all.end());
        Ints want(static_cast<std::size_t>(padded.padded_tokens()));
        std::iota(want.begin(), want.end(), 0);
        EXPECT_EQ(all, want);
      }
    }
  }
}

TEST(VocabShard, PartitionsTheVocabulary) {
  for (const std::int64_t vocab : {2, 7, 8, 10, 96, 101, 151936}) {
    for (const int tp : {1, 2, 3, 4, 8}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < tp; ++rank) {
        const VocabShard shard = vocab_shard(vocab, tp, rank);
        EXPECT_EQ(shard.begin, next);
        EXPECT_LE(shard.valid(), shard.width);
        EXPECT_GE(shard.valid(), 0);
        EXPECT_EQ(shard.width, (vocab + tp - 1) / tp);
        // Only the end of the vocabulary leaves columns over.
        if (shard.valid() < shard.width) {
          EXPECT_EQ(shard.end, vocab);
        }
        next = shard.end;
      }
      EXPECT_EQ(next, vocab);
    }
  }
}

TEST(VocabShard, MayBeEmpty) {
  EXPECT_EQ(vocab_shard(10, 8, 4).valid(), 2);
  for (int rank = 5; rank < 8; ++rank) EXPECT_EQ(vocab_shard(10, 8, rank).valid(), 0);
  EXPECT_EQ(vocab_shard(10, 8, 7).width, 2);
}

TEST(VocabShard, OwnsItsIds) {
  const VocabShard shard = vocab_shard(101, 4, 1);  // [26, 52)
  EXPECT_FALSE(shard.owns(25));
  EXPECT_TRUE(shard.owns(26));
  EXPECT_TRUE(shard.owns(51));
  EXPECT_FALSE(shard.owns(52));
}

TEST(ShardEdges, AreTheFirstAndLastIdsOfEveryShard) {
  EXPECT_EQ(shard_edge_ids(16),
            (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(shard_edge_ids(64), (std::vector<std::int32_t>{0, 7, 8, 15, 16, 23, 24, 31, 32, 39, 40,
                                                           47, 48, 55, 56, 63}));
  EXPECT_EQ(shard_edge_ids(1), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(shard_edge_ids(2147483647).back(), 2147483646);
}

TEST(ShiftTargets, MasksBelongToTheTargetAndTheSample) {
  PackedBatch batch;
  batch.cu_seqlens = {0, 3, 3, 5};
  batch.cu_seqlens_padded = {0, 4, 4, 8};
  batch.input_ids = {7, 8, 9, 5, 6};
  batch.token_mask = {1, 0, 1, 1, 1};
  batch.sample_mask = {1, 1, 0};
  batch.input_lengths = {3, 0, 2};
  batch.inputs[2] = {1, 2, 3, 4, 5};
  const ShiftedBatch shifted = shift_targets(batch);
  EXPECT_EQ(shifted.targets, (std::vector<std::int32_t>{8, 9, -1, -1, 6, -1, -1, -1}));
  EXPECT_EQ(shifted.valid, (std::vector<std::uint8_t>{0, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(shifted.sequence, (std::vector<std::int32_t>{0, 0, 0, 0, 2, 2, 2, 2}));
  EXPECT_EQ(shifted.real, (std::vector<std::uint8_t>{1, 1, 1, 0, 1, 1, 0, 0}));
  // Inputs are about the predicted token, masked or not; 0 where nothing is predicted.
  EXPECT_EQ(shifted.inputs[2], (std::vector<float>{2, 3, 0, 0, 5, 0, 0, 0}));
  EXPECT_TRUE(shifted.inputs[0].empty());
}

TEST(ShiftTargets, InputsOfTheWorkedExampleGoWithTheTokensThatTheyAreAbout) {
  const PackedBatch batch = worked_example(1);
  const ShiftedBatch shifted = shift_targets(batch);
  for (const int cp_rank : {0, 1}) {
    const ShiftedBatch mine = shifted.gather(cp_rows(batch, 2, cp_rank));
    // Tokens are named by their ids, and so is the input about them.
    std::vector<float> wanted;
    for (const std::int32_t target : split_targets(batch, cp_rank)) {
      wanted.push_back(target < 0 ? 0.0f : static_cast<float>(target));
    }
    EXPECT_EQ(mine.inputs[0], wanted);
    EXPECT_EQ(mine.rows(), 12u);
  }
  const ShiftedBatch first = shifted.gather(cp_rows(batch, 2, 0));
  EXPECT_EQ(first.inputs[0], (std::vector<float>{1, 2, 0, 0, 11, 12, 17, 0, 0, 0, 31, 0}));
  EXPECT_EQ(first.real, (std::vector<std::uint8_t>{1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0}));
  EXPECT_EQ(first.sequence, (std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3}));
}

TEST(ShiftTargets, PaddedLengthsKeepTheTrueRowsReal) {
  PackedBatch batch;
  batch.cu_seqlens = {0, 4, 8};
  batch.cu_seqlens_padded = {0, 4, 8};
  batch.input_ids = {1, 2, 3, 4, 5, 6, 7, 8};
  batch.token_mask = {1, 1, 1, 0, 1, 0, 0, 0};
  batch.sample_mask = {1, 1};
  batch.input_lengths = {3, 1};
  const ShiftedBatch shifted = shift_targets(batch);
  EXPECT_EQ(shifted.real, (std::vector<std::uint8_t>{1, 1, 1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(shifted.valid, (std::vector<std::uint8_t>{1, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(ShiftTargets, ADummyHasNoRealRows) {
  PackedBatch batch = worked_example(1);
  batch.microbatch.dummy = true;
  const ShiftedBatch shifted = shift_targets(batch);
  EXPECT_EQ(shifted.real, std::vector<std::uint8_t>(24, 0));
  EXPECT_EQ(shifted.targets, shift_targets(worked_example(1)).targets);
}

TEST(ShiftTargets, RowsAppendInOrder) {
  const ShiftedBatch shifted = shift_targets(worked_example(1));
  const std::vector<std::int64_t> front{0, 1, 2};
  const std::vector<std::int64_t> back{8, 23};
  ShiftedBatch rows = shifted.gather(front);
  rows.append(shifted.gather(back));
  const std::vector<std::int64_t> both{0, 1, 2, 8, 23};
  const ShiftedBatch wanted = shifted.gather(both);
  EXPECT_EQ(rows.targets, wanted.targets);
  EXPECT_EQ(rows.valid, wanted.valid);
  EXPECT_EQ(rows.real, wanted.real);
  EXPECT_EQ(rows.sequence, wanted.sequence);
  EXPECT_EQ(rows.inputs, wanted.inputs);
  EXPECT_EQ(rows.targets, (std::vector<std::int32_t>{1, 2, 3, 11, -1}));
}

}  // namespace
}  // namespace lossgrid
