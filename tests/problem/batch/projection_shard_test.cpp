// SPDX-License-Identifier: Apache-2.0
// Hidden states and weight as ranks are given them: the same numbers on every grid, with sequence
// parallelism and without, in both layouts of the weight, and poison in all other places.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/bundle/bundle.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

constexpr std::array<Grid, 14> kHiddenGrids{{{1, 1},
                                             {2, 1},
                                             {1, 2},
                                             {2, 2},
                                             {4, 2},
                                             {2, 4},
                                             {8, 1},
                                             {3, 3},
                                             {1, 2, 1, true},
                                             {2, 1, 1, true},
                                             {2, 2, 1, true},
                                             {4, 2, 1, true},
                                             {3, 3, 1, true},
                                             {8, 1, 2, true}}};

/// Positions in the padded pack of the rows that a rank holds, by their definition.
std::vector<std::int64_t> positions_of(const Problem& problem, const Grid& grid, int tp_rank,
                                       int cp_rank) {
  const auto all = cp_rows(layout_of(problem, grid).cu_padded, grid, cp_rank);
  if (!grid.sp) return all;
  EXPECT_EQ(all.size() % static_cast<std::size_t>(grid.tp), 0u);
  const auto part = static_cast<std::int64_t>(all.size()) / grid.tp;
  return {all.begin() + tp_rank * part, all.begin() + (tp_rank + 1) * part};
}

/// A rank's hidden states as float32, [rows][H].
template <typename T>
std::vector<std::vector<float>> hidden_rows(const Problem& problem, const Grid& grid, int tp_rank,
                                            int cp_rank) {
  const std::size_t rows = positions_of(problem, grid, tp_rank, cp_rank).size();
  const auto size = static_cast<std::size_t>(problem.projection->size);
  constexpr float kUntouched = 12345;
  std::vector<T> shard((rows + 1) * size, T(kUntouched));
  fill_hidden_shard(problem, grid, tp_rank, cp_rank, shard.data());
  std::vector<std::vector<float>> out;
  for (std::size_t r = 0; r < rows; ++r) {
    out.emplace_back(shard.begin() + r * size, shard.begin() + (r + 1) * size);
  }
  EXPECT_EQ(static_cast<float>(shard[rows * size]), static_cast<float>(T(kUntouched)));
  return out;
}

/// The value at (column of the shard, place) in the layout of the case.
template <typename T>
float at(const Problem& problem, const std::vector<T>& shard, std::int64_t width,
         std::int64_t column, std::int64_t k) {
  const std::int64_t size = problem.projection->size;
  return static_cast<float>(problem.spec.weight_layout == WeightLayout::vocab_hidden
                                ? shard[column * size + k]
                                : shard[k * width + column]);
}

void expect_row(const std::vector<float>& row, const float* wanted) {
  for (std::size_t k = 0; k < row.size(); ++k) ASSERT_EQ(row[k], wanted[k]) << k;
}

/// Every rank's rows against the values of the problem, by token; poison elsewhere.
template <typename T, typename IsPoison>
void expect_hidden(const Problem& problem, const Grid& grid, IsPoison&& is_poison, bool masked_rows,
                   bool pads) {
  SCOPED_TRACE(format_grid(grid));
  const PackedLayout layout = layout_of(problem, grid);
  const auto valid = problem.row_valid();
  std::vector<std::int64_t> token_at(static_cast<std::size_t>(layout.padded_tokens()), -1);
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    for (std::int64_t o = 0; o < problem.lengths[i]; ++o) {
      token_at[layout.cu_padded[i] + o] = layout.cu[i] + o;
    }
  }
  for (int cp_rank = 0; cp_rank < grid.cp; ++cp_rank) {
    for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
      const auto positions = positions_of(problem, grid, tp_rank, cp_rank);
      const auto rows = hidden_rows<T>(problem, grid, tp_rank, cp_rank);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const std::int64_t token = token_at[positions[r]];
        const bool poisoned = token < 0 ? pads : valid[token] == 0 && masked_rows;
        for (const float value : rows[r]) {
          ASSERT_EQ(is_poison(value), poisoned) << positions[r];
          if (!poisoned) {
            ASSERT_TRUE(std::isfinite(value));
          }
        }
        if (token >= 0 && !poisoned) {
          expect_row(rows[r], problem.projection->hidden_row(problem.whole_row(token)));
        }
      }
    }
  }
}

const auto kIsNan = [](float value) { return std::isnan(value); };
const auto kIsInf = [](float value) { return value == HUGE_VALF; };

TEST(HiddenShard, IsTheSameOnEveryGrid) {
  const std::string text = "lens=5+8+0+1+6 sample_mask=11110 bin_multiple=20 vocab=11 hidden=9 ";
  for (const Grid& grid : kHiddenGrids) {
    expect_hidden<float>(problem_of(text + "poison=nan"), grid, kIsNan, true, true);
    expect_hidden<float>(problem_of(text + "poison=inf"), grid, kIsInf, true, true);
    expect_hidden<float>(problem_of(text + "poison=none"), grid, kIsNan, false, false);
    expect_hidden<bf16>(problem_of(text + "poison=nan dtype=bf16"), grid, kIsNan, true, true);
    expect_hidden<float>(problem_of(text + "cu=padded values=ties"), grid, kIsNan, true, true);
  }
}

TEST(HiddenShard, KeepsMaskedRowsOfABundle) {
  const Bundle bundle = read_bundle(LOSSGRID_SOURCE_DIR "/tests/golden/nll_linear.safetensors");
  for (const Grid& grid : kHiddenGrids) {
    expect_hidden<float>(bundle.problem, grid, kIsNan, false, true);
  }
}

TEST(HiddenShard, HoldsTheRowsOfItsPart) {
  const Problem problem = problem_of("lens=5+8+0+3 vocab=11 hidden=9");
  const Problem plain = problem_of("lens=5+8+0+3 vocab=11 hidden=9 poison=none");
  const Problem inner = take_part(plain, {{1, 3}, false}, 1, 1);
  for (const Grid& grid : kHiddenGrids) {
    expect_hidden<float>(take_part(problem, {{1, 3}, false}, 2, 1), grid, kIsNan, true, true);
    expect_hidden<float>(take_part(problem, {{1}, true}, 2, 1), grid, kIsNan, true, true);
    expect_hidden<float>(take_part(inner, {{1}, false}, 1, 1), grid, kIsNan, false, false);
    EXPECT_TRUE(hidden_rows<float>(take_part(problem, {}, 2, 1), grid, 0, 0).empty());
  }
}

/// The worked example: padded to 8 each, sequences start at rows 0, 8, 16 and 24 of the pack.
TEST(HiddenShard, MatchesTheWorkedExampleWithSequenceParallelism) {
  const Problem problem = problem_of("lens=5+8+1+3 vocab=11 hidden=3 poison=none");
  const Grid grid{2, 2, 1, true};
  ASSERT_EQ(layout_of(problem, grid).cu_padded, (std::vector<std::int64_t>{0, 8, 16, 24, 32}));
  // Token of each row; -1 for a pad. cp rank 0 holds rows 0 1 6 7 of every eight, rank 1 the
  // others; sequences a and b are in the first half of both.
  const int wanted[2][2][8] = {{{0, 1, -1, -1, 5, 6, 11, 12}, {13, -1, -1, -1, 14, 15, -1, -1}},
                               {{2, 3, 4, -1, 7, 8, 9, 10}, {-1, -1, -1, -1, 16, -1, -1, -1}}};
  for (int cp_rank = 0; cp_rank < 2; ++cp_rank) {
    for (int tp_rank = 0; tp_rank < 2; ++tp_rank) {
      const auto rows = hidden_rows<float>(problem, grid, tp_rank, cp_rank);
      ASSERT_EQ(rows.size(), 8u);
      for (std::size_t r = 0; r < 8; ++r) {
        const int token = wanted[cp_rank][tp_rank][r];
        if (token >= 0) expect_row(rows[r], problem.projection->hidden_row(token));
      }
    }
  }
}

TEST(HiddenShard, PartsOfSequenceParallelismAreThoseOfTheCpRank) {
  // Padded as the grid needs it with SP: the layouts are the same then.
  const Problem problem =
      problem_of("lens=5+8+0+1+6 pad_multiple=16 vocab=11 hidden=9 poison=none");
  for (const Grid& grid : {Grid{2, 1}, Grid{4, 2}, Grid{2, 4}}) {
    const Grid with_sp{grid.tp, grid.cp, 1, true};
    for (int cp_rank = 0; cp_rank < grid.cp; ++cp_rank) {
      std::vector<std::vector<float>> joined;
      for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
        const auto part = hidden_rows<float>(problem, with_sp, tp_rank, cp_rank);
        joined.insert(joined.end(), part.begin(), part.end());
        EXPECT_EQ(hidden_rows<float>(problem, grid, tp_rank, cp_rank),
                  hidden_rows<float>(problem, grid, 0, cp_rank));
      }
      EXPECT_EQ(joined, hidden_rows<float>(problem, grid, 0, cp_rank));
    }
  }
}

template <typename T>
void expect_weight(const Problem& problem, const Grid& grid, const std::string& poison) {
  SCOPED_TRACE(format_grid(grid));
  const std::int64_t size = problem.projection->size;
  std::int64_t seen = 0;
  for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
    const VocabShard shard = vocab_shard(problem.spec.vocab, grid.tp, tp_rank);
    std::vector<T> values(static_cast<std::size_t>(shard.width * size));
    fill_weight_shard(problem, grid, tp_rank, values.data());
    seen += shard.valid();
    for (std::int64_t column = 0; column < shard.width; ++column) {
      for (std::int64_t k = 0; k < size; ++k) {
        const float value = at(problem, values, shard.width, column, k);
        if (column < shard.valid()) {
          ASSERT_EQ(value, problem.projection->weight_row(shard.begin + column)[k])
              << column << ' ' << k;
        } else {
          ASSERT_EQ(std::isnan(value), poison == "nan");
          ASSERT_EQ(std::isinf(value), poison == "inf");
        }
      }
    }
  }
  EXPECT_EQ(seen, problem.spec.vocab);
}

TEST(WeightShard, IsTheSameOnEveryGridInBothLayouts) {
  for (const std::string layout : {"vocab_hidden", "hidden_vocab"}) {
    for (const std::string poison : {"nan", "inf", "none"}) {
      // 37 ids: tp 2, 3, 4 and 8 leave padding, 8 leaves more than one tile of a transposed shard.
      const std::string text =
          "lens=3 vocab=37 hidden=9 weight_layout=" + layout + " poison=" + poison;
      for (const Grid& grid : kHiddenGrids) {
        expect_weight<float>(problem_of(text), grid, poison);
        expect_weight<bf16>(problem_of(text + " dtype=bf16"), grid, poison);
      }
    }
  }
}

TEST(WeightShard, AnEmptyShardIsAllPadding) {
  for (const std::string layout : {"vocab_hidden", "hidden_vocab"}) {
    const Problem problem = problem_of("lens=4 vocab=10 hidden=5 weight_layout=" + layout);
    std::vector<float> shard(2 * 5);
    fill_weight_shard(problem, Grid{8, 1}, 7, shard.data());
    for (const float value : shard) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(WeightShard, PlausiblePadsAreOfOnePlaceEach) {
  const Problem problem = problem_of("lens=3 vocab=10 hidden=64 poison=none");
  std::vector<float> shard(3 * 64);
  fill_weight_shard(problem, Grid{4, 1}, 3, shard.data());  // id 9 and two pads
  double squares = 0;
  for (std::size_t k = 64; k < shard.size(); ++k) squares += shard[k] * shard[k];
  EXPECT_NEAR(squares / 128, 1, 0.4);
  EXPECT_FALSE(std::equal(shard.begin() + 64, shard.begin() + 128, shard.begin() + 128));
}

/// Expects a bias of the shard on every rank, the same number for an id on all grids.
template <typename T>
void expect_bias(const Problem& problem, const std::string& poison) {
  for (const Grid& grid : kHiddenGrids) {
    for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
      const VocabShard shard = vocab_shard(problem.spec.vocab, grid.tp, tp_rank);
      std::vector<T> values(static_cast<std::size_t>(shard.width + 1), T(7.0f));
      fill_bias_shard(problem, grid, tp_rank, values.data());
      for (std::int64_t column = 0; column < shard.width; ++column) {
        const auto value = static_cast<float>(values[static_cast<std::size_t>(column)]);
        if (column < shard.valid()) {
          ASSERT_EQ(value, problem.projection->bias(shard.begin + column));
        } else {
          ASSERT_EQ(std::isnan(value), poison == "nan");
          ASSERT_EQ(std::isinf(value), poison == "inf");
        }
      }
      ASSERT_EQ(static_cast<float>(values.back()), 7.0f);
    }
  }
}

TEST(BiasShard, IsTheSameOnEveryGrid) {
  for (const std::string poison : {"nan", "inf", "none"}) {
    const std::string text = "lens=3 vocab=37 hidden=9 lm_head_bias=true poison=" + poison;
    expect_bias<float>(problem_of(text), poison);
    expect_bias<bf16>(problem_of(text + " dtype=bf16"), poison);
  }
}

TEST(BiasShard, LeavesHiddenStatesAndWeightAsTheyAre) {
  const std::string text = "lens=5+3 vocab=37 hidden=9";
  const Problem plain = problem_of(text);
  const Problem biased = problem_of(text + " lm_head_bias=true");
  EXPECT_EQ(biased.projection->factors(), 10);
  for (std::int64_t id = 0; id < 37; ++id) {
    for (std::int64_t h = 0; h < 9; ++h) {
      ASSERT_EQ(biased.projection->weight_row(id)[h], plain.projection->weight_row(id)[h]);
    }
  }
  for (std::int64_t t = 0; t < 8; ++t) {
    double without = 0;
    double with = 0;
    plain.logits->read(t, 11, std::span<double>(&without, 1));
    biased.logits->read(t, 11, std::span<double>(&with, 1));
    EXPECT_NEAR(with, without + double{biased.projection->bias(11)}, 1e-12);
  }
  const Grid grid{2, 2};
  expect_hidden<float>(biased, grid, kIsNan, true, true);
}

TEST(BiasShard, HoldsTheShiftOfTheLogits) {
  const Problem problem = problem_of("lens=5 vocab=9 hidden=1 lm_head_bias=true values=offset");
  for (std::int64_t id = 0; id < 9; ++id) {
    EXPECT_NEAR(problem.projection->bias(id), 1e4, 10);
  }
}

TEST(WeightGradient, StartsAtZeroOrAtThatOfTheEmbedding) {
  for (const std::string layout : {"vocab_hidden", "hidden_vocab"}) {
    for (const std::string tied : {"false", "true"}) {
      const Problem problem =
          problem_of("lens=3 vocab=37 hidden=50 dtype=bf16 weight_layout=" + layout +
                     " tied_embedding=" + tied);
      std::vector<float> wanted(50);
      double squares = 0;
      for (const Grid& grid : kHiddenGrids) {
        for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
          const VocabShard shard = vocab_shard(37, grid.tp, tp_rank);
          std::vector<float> values(static_cast<std::size_t>(shard.width * 50), 7.0f);
          fill_weight_gradient(problem, grid, tp_rank, values.data());
          for (std::int64_t column = 0; column < shard.width; ++column) {
            std::fill(wanted.begin(), wanted.end(), 0.0f);
            if (column < shard.valid()) {
              embedding_gradient(problem, shard.begin + column, wanted);
            }
            for (std::int64_t k = 0; k < 50; ++k) {
              ASSERT_EQ(at(problem, values, shard.width, column, k), wanted[k]);
              if (grid.tp == 1 && grid.cp == 1) squares += double{wanted[k]} * double{wanted[k]};
            }
          }
        }
      }
      EXPECT_NEAR(std::sqrt(squares / (37 * 50)), tied == "true" ? 1e-3 : 0, 1e-4);
    }
  }
}

TEST(WeightGradient, IsAFunctionOfSeedAndIdForAnEmbedding) {
  const std::string text = "lens=3 vocab=37 hidden=20 tied_embedding=true";
  const auto row = [](const Problem& problem, std::int64_t id) {
    std::vector<float> values(20);
    embedding_gradient(problem, id, values);
    return values;
  };
  EXPECT_EQ(row(problem_of(text), 5), row(problem_of(text + " values=ties dtype=bf16"), 5));
  EXPECT_NE(row(problem_of(text), 5), row(problem_of(text), 6));
  EXPECT_NE(row(problem_of(text), 5), row(problem_of(text + " seed=7"), 5));
}

}  // namespace
}  // namespace lossgrid
