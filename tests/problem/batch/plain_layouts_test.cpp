// SPDX-License-Identifier: Apache-2.0
// Padding, rows of CP ranks, parts of sequence parallelism, shards of the vocabulary and places of
// ranks against a plain recomputation (plain_layouts.h), over random packs.
#include "plain_layouts.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "harness/problem/batch/dynamic_partition.h"
#include "harness/problem/batch/packed_batch.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

/// A pack and a grid to lay it out on.
struct PackDraw {
  plain::Ints lengths;
  std::int64_t pad_multiple;
  std::int64_t bin_multiple;
  Grid grid;
  std::string shown;
};

/// Draws a pack with empty sequences and sequences of one token among others; sometimes none.
PackDraw draw_pack(const std::string& layout, int cp, std::mt19937& random) {
  PackDraw draw;
  draw.lengths.resize(random() % 7);
  for (auto& length : draw.lengths) {
    length = random() % 3 == 0 ? random() % 2 : random() % 70;
  }
  draw.pad_multiple = 1 + random() % 6;
  draw.bin_multiple = random() % 2 == 0 ? 1 : 1 + random() % 40;
  const int tp = 1 + random() % 4;
  draw.shown = fmt::format("tp{}cp{}dp{}pp{}{}:{}", tp, cp, 1 + random() % 3, 1 + random() % 2,
                           random() % 2 == 0 ? "sp" : "", layout);
  draw.grid = parse_grid(draw.shown);
  draw.shown +=
      fmt::format(" pad_multiple={} bin_multiple={}", draw.pad_multiple, draw.bin_multiple);
  return draw;
}

/// Calls with(layout, pack) for every layout and size of CP.
template <class With>
void for_every_layout(int packs, const With& with) {
  std::mt19937 random(20);
  for (const plain::Layout& layout : plain::layouts()) {
    for (int cp = 1; cp <= 8; ++cp) {
      for (int k = 0; k < packs; ++k) with(layout.name, draw_pack(layout.name, cp, random));
    }
  }
}

TEST(PlainLayouts, AreAllThatAreListed) {
  std::set<std::string> listed;
  for (const CpLayoutRules& rules : kCpLayouts) listed.insert(rules.name);
  std::set<std::string> known{"dynamic"};
  for (const plain::Layout& layout : plain::layouts()) known.insert(layout.name);
  EXPECT_EQ(listed, known);
}

TEST(PlainLayouts, PadAsTheTableOfLayoutsHasIt) {
  for_every_layout(30, [](const std::string& layout, const PackDraw& draw) {
    SCOPED_TRACE(draw.shown);
    const PackedLayout got =
        make_layout(draw.lengths, draw.pad_multiple, draw.bin_multiple, draw.grid);
    const auto grid = plain::multiples(layout, draw.grid.cp, draw.grid.sp ? draw.grid.tp : 1);
    EXPECT_EQ(got.cu_padded,
              plain::padded_offsets(draw.lengths, grid, draw.pad_multiple, draw.bin_multiple));
    EXPECT_EQ(got.cu, plain::padded_offsets(draw.lengths, {}, 1, 1));
    EXPECT_EQ(got.lengths, draw.lengths);
  });
}

TEST(PlainLayouts, GiveEveryRowToItsRankAndPlace) {
  for_every_layout(30, [](const std::string& layout, const PackDraw& draw) {
    SCOPED_TRACE(draw.shown);
    const auto grid = plain::multiples(layout, draw.grid.cp, draw.grid.sp ? draw.grid.tp : 1);
    const plain::Ints offsets =
        plain::padded_offsets(draw.lengths, grid, draw.pad_multiple, draw.bin_multiple);
    const plain::RankRows want = plain::rows_of_ranks(layout, draw.grid.cp, offsets);
    PackedBatch batch;
    batch.cu_seqlens_padded = offsets;
    batch.cp_layout = draw.grid.cp_layout;
    for (int rank = 0; rank < draw.grid.cp; ++rank) {
      ASSERT_EQ(cp_rows(offsets, draw.grid, rank), want[rank]) << "rank " << rank;
      ASSERT_EQ(cp_rows(batch, draw.grid.cp, rank), want[rank]) << "rank " << rank;
    }
  });
}

/// TransformerEngine's `thd_partition_src_index` and PyTorch's head-tail, which are other formulas
/// of the same rows.
TEST(PlainLayouts, ZigzagIsThatOfFrameworks) {
  std::mt19937 random(21);
  for (int cp = 2; cp <= 8; ++cp) {
    const PackDraw draw = draw_pack("zigzag", cp, random);
    const PackedLayout pack = make_layout(draw.lengths, 1, 1, draw.grid);
    for (int r = 0; r < cp; ++r) {
      const auto rows = cp_rows(pack.cu_padded, draw.grid, r);
      for (std::size_t i = 0; i < draw.lengths.size(); ++i) {
        const std::int64_t first = pack.cu_padded[i] / cp;
        const std::int64_t local = (pack.cu_padded[i + 1] - pack.cu_padded[i]) / cp;
        for (std::int64_t k = 0; k < local; ++k) {
          const std::int64_t turn = k < local / 2 ? r : 2 * (cp - 1) - r;
          ASSERT_EQ(rows[first + k], k + first * cp + local / 2 * turn) << cp << " " << r;
        }
      }
    }
  }
}

/// The logits that a rank is given are those of the plain place of each row and column, and hidden
/// states with sequence parallelism those of its part of the rows.
TEST(PlainLayouts, ShardsHoldTheNumbersOfTheirPlaces) {
  std::mt19937 random(22);
  for (const plain::Layout& of : plain::layouts()) {
    const std::string& layout = of.name;
    for (const char* sp : {"", "sp"}) {
      const int tp = 2 + random() % 3;
      const int cp = 1 + random() % 4;
      const Grid grid = parse_grid(fmt::format("tp{}cp{}{}:{}", tp, cp, sp, layout));
      SCOPED_TRACE(format_grid(grid));
      const Problem logits = problem_of("lens=5+1+0+9 vocab=11 mask=all poison=none dtype=f64");
      const Problem hidden = problem_of("lens=5+1+0+9 vocab=11 hidden=3 mask=all poison=none");
      const auto offsets = plain::padded_offsets(
          logits.lengths, plain::multiples(layout, cp, grid.sp ? tp : 1), 1, 1);
      const auto rows = plain::rows_of_ranks(layout, cp, offsets);
      const auto columns = plain::columns_of_ranks(11, tp);
      const auto token_at = [&](std::int64_t row) {  // -1 for a pad
        for (std::size_t i = 0; i < logits.lengths.size(); ++i) {
          const std::int64_t o = row - offsets[i];
          if (o >= 0 && o < logits.lengths[i]) return logits.cu_seqlens[i] + o;
        }
        return std::int64_t{-1};
      };
      for (int rank = 0; rank < tp * cp; ++rank) {
        const plain::Ints& mine = rows[rank / tp];
        const plain::Ints& ids = columns[rank % tp];
        std::vector<double> shard(mine.size() * ids.size());
        fill_logits_shard(logits, grid, rank % tp, rank / tp, shard.data());
        for (std::size_t k = 0; k < mine.size(); ++k) {
          if (token_at(mine[k]) < 0) continue;
          for (std::size_t c = 0; c < ids.size(); ++c) {
            if (ids[c] < 0) continue;
            double want = 0;
            logits.logits->read(token_at(mine[k]), ids[c], std::span<double>(&want, 1));
            ASSERT_EQ(shard[k * ids.size() + c], want) << rank << " " << k << " " << c;
          }
        }
        const std::size_t part = mine.size() / (grid.sp ? tp : 1);
        const std::size_t first = grid.sp ? part * (rank % tp) : 0;
        std::vector<float> states(part * 3);
        fill_hidden_shard(hidden, grid, rank % tp, rank / tp, states.data());
        for (std::size_t k = 0; k < part; ++k) {
          const std::int64_t token = token_at(mine[first + k]);
          if (token < 0) continue;
          const float* want = hidden.projection->hidden_row(token);
          for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(states[k * 3 + c], want[c]) << rank;
        }
      }
    }
  }
}

/// Bits of kept sets: that of column c of a shard in word c / 64.
TEST(PlainLayouts, ShardsHoldTheBitsOfTheirPlaces) {
  const Problem problem = problem_of("lens=5+3 vocab=150 top_k=70 mask=all");
  const Grid grid = parse_grid("tp2cp3:contiguous_sequence");
  const auto offsets =
      plain::padded_offsets(problem.lengths, plain::multiples("contiguous_sequence", 3, 1), 1, 1);
  const auto rows = plain::rows_of_ranks("contiguous_sequence", 3, offsets);
  const auto columns = plain::columns_of_ranks(150, 2);
  int compared = 0;
  for (int rank = 0; rank < 6; ++rank) {
    std::vector<std::uint64_t> words(rows[rank / 2].size() * 2);  // 75 columns
    fill_mask_shard(problem, grid, rank % 2, rank / 2, words.data());
    for (std::size_t k = 0; k < rows[rank / 2].size(); ++k) {
      for (std::size_t i = 0; i < 2; ++i) {
        const std::int64_t t = rows[rank / 2][k] - offsets[i];
        if (t < 0 || t + 1 >= problem.lengths[i]) continue;
        for (std::size_t c = 0; c < 75; ++c) {
          const bool bit = (words[2 * k + c / 64] >> (c % 64) & 1) != 0;
          ASSERT_EQ(bit,
                    problem.sampling_mask->keeps(problem.cu_seqlens[i] + t, columns[rank % 2][c]))
              << rank << " " << k << " " << c;
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 150 * (4 + 2));
}

TEST(PlainLayouts, ShardsOfTheVocabularyHoldTheirIds) {
  for (std::int64_t vocab = 2; vocab <= 70; ++vocab) {
    for (int tp = 1; tp <= 9 && tp <= vocab; ++tp) {
      const plain::RankRows columns = plain::columns_of_ranks(vocab, tp);
      for (int rank = 0; rank < tp; ++rank) {
        const VocabShard shard = vocab_shard(vocab, tp, rank);
        ASSERT_EQ(shard.width, static_cast<std::int64_t>(columns[rank].size()));
        for (std::int64_t c = 0; c < shard.width; ++c) {
          const std::int64_t id = columns[rank][static_cast<std::size_t>(c)];
          ASSERT_EQ(c < shard.valid() ? shard.begin + c : -1, id) << vocab << " " << tp;
        }
        for (std::int64_t v = -1; v <= vocab; ++v) {
          const bool mine = v >= 0 && v < vocab && v / shard.width == rank;
          ASSERT_EQ(shard.owns(v), mine) << vocab << " " << tp << " " << rank << " " << v;
        }
      }
    }
  }
  for (int rank = 0; rank < 4; ++rank) {  // a head of one number is on all ranks
    EXPECT_EQ(vocab_shard(1, 4, rank).valid(), 1);
    EXPECT_EQ(vocab_shard(1, 4, rank).width, 1);
  }
}

/// Ranks are counted over TP first, then CP, DP and PP.
TEST(PlainLayouts, RanksStandInTheOrderOfTheAxes) {
  const Grid grid = parse_grid("tp3cp2dp4pp2");
  int rank = 0;
  for (int pp = 0; pp < 2; ++pp) {
    for (int dp = 0; dp < 4; ++dp) {
      for (int cp = 0; cp < 2; ++cp) {
        for (int tp = 0; tp < 3; ++tp, ++rank) {
          EXPECT_EQ(grid.rank_of(tp, cp, dp, pp), rank);
          EXPECT_EQ(grid.tp_rank(rank), tp);
          EXPECT_EQ(grid.cp_rank(rank), cp);
          EXPECT_EQ(grid.dp_rank(rank), dp);
          EXPECT_EQ(grid.pp_rank(rank), pp);
          EXPECT_EQ(grid.is_last_stage(rank), pp == 1);
        }
      }
    }
  }
  EXPECT_EQ(grid.ranks(), rank);
}

/// The smallest divisor of cp x dp that leaves no sequence of the microbatch more than B tokens a
/// rank, where the longest sequence of the batch has B on all of them.
TEST(PlainLayouts, SizesOfDynamicCpLeaveNoRankMoreThanTheLongestSequenceDoes) {
  for (int cp = 1; cp <= 6; ++cp) {
    for (int dp = 1; dp <= 4; ++dp) {
      const Grid grid = parse_grid(fmt::format("tp1cp{}dp{}:dynamic", cp, dp));
      for (std::int64_t most = 0; most <= 40; ++most) {
        std::int64_t share = 0;
        while (share * cp * dp < most) ++share;
        for (std::int64_t longest = 0; longest <= most; ++longest) {
          int size = 1;
          while (cp * dp % size != 0 || longest > share * size) ++size;
          ASSERT_EQ(dynamic_cp(grid, longest, most), size)
              << format_grid(grid) << " " << longest << " of " << most;
          const Grid own = grid.with_cp(size);
          ASSERT_EQ(own.cp, size);
          ASSERT_EQ(own.dp * own.cp, cp * dp);
          ASSERT_EQ(name(own.cp_layout), "zigzag");
        }
      }
    }
  }
}

}  // namespace
}  // namespace lossgrid
