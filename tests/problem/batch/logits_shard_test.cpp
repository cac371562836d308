// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

constexpr std::array<std::pair<int, int>, 13> kLogitGrids{{{1, 1},
                                                           {2, 1},
                                                           {1, 2},
                                                           {2, 2},
                                                           {4, 1},
                                                           {1, 4},
                                                           {4, 2},
                                                           {2, 4},
                                                           {8, 1},
                                                           {1, 8},
                                                           {3, 1},
                                                           {1, 3},
                                                           {3, 3}}};

double as_double(const double* value) {
  return *value;
}
double as_double(const float* value) {
  return *value;
}
double as_double(const bf16* value) {
  return static_cast<double>(*value);
}

/// Every shard of a grid, put together by its definition: [T_pad][tp * width] of T.
template <typename T>
std::vector<std::vector<T>> gather(const Problem& problem, const Grid& grid) {
  const PackedLayout layout = layout_of(problem, grid);
  const std::int64_t width = vocab_shard(problem.spec.vocab, grid.tp, 0).width;
  std::vector<std::vector<T>> whole(static_cast<std::size_t>(layout.padded_tokens()),
                                    std::vector<T>(static_cast<std::size_t>(width * grid.tp)));
  for (int cp_rank = 0; cp_rank < grid.cp; ++cp_rank) {
    const auto rows = cp_rows(layout.cu_padded, grid, cp_rank);
    for (int tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
      std::vector<T> shard(rows.size() * static_cast<std::size_t>(width));
      fill_logits_shard(problem, grid, tp_rank, cp_rank, shard.data());
      for (std::size_t r = 0; r < rows.size(); ++r) {
        std::copy_n(shard.begin() + static_cast<std::int64_t>(r) * width, width,
                    whole[rows[r]].begin() + tp_rank * width);
      }
    }
  }
  return whole;
}

/// The true rows and columns, by token.
template <typename T>
std::vector<std::vector<T>> true_part(const Problem& problem, const Grid& grid) {
  const PackedLayout layout = layout_of(problem, grid);
  const auto whole = gather<T>(problem, grid);
  const auto shard = vocab_shard(problem.spec.vocab, grid.tp, 0);
  std::vector<std::vector<T>> rows;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    for (std::int64_t o = 0; o < problem.lengths[i]; ++o) {
      const auto& row = whole[layout.cu_padded[i] + o];
      rows.emplace_back();
      for (std::int64_t v = 0; v < problem.spec.vocab; ++v) {
        rows.back().push_back(row[v / shard.width * shard.width + v % shard.width]);
      }
    }
  }
  return rows;
}

template <typename T>
void expect_same_bits(const std::vector<std::vector<T>>& a, const std::vector<std::vector<T>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t row = 0; row < a.size(); ++row) {
    ASSERT_EQ(a[row].size(), b[row].size());
    ASSERT_EQ(std::memcmp(a[row].data(), b[row].data(), a[row].size() * sizeof(T)), 0) << row;
  }
}

class ShardOfEveryRegime : public testing::TestWithParam<std::string> {};

TEST_P(ShardOfEveryRegime, TensorsAreTheSameOnEveryGrid) {
  for (const std::string dtype : {"f32", "bf16", "f64"}) {
    if (dtype == "f64" && GetParam() == "denormal") continue;  // refused
    for (const std::string poison : {"nan", "none"}) {
      const Problem problem =
          problem_of("lens=5+8+0+1+3 bin_multiple=20 vocab=37 values=" + GetParam() +
                     " poison=" + poison + " dtype=" + dtype);
      dispatch_floating(problem.spec.dtype, [&](auto element) {
        using T = decltype(element);
        const auto wanted = true_part<T>(problem, Grid{1, 1});
        for (const auto& [tp, cp] : kLogitGrids) {
          SCOPED_TRACE(dtype + ' ' + std::to_string(tp) + 'x' + std::to_string(cp));
          expect_same_bits(true_part<T>(problem, Grid{tp, cp}), wanted);
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Values, ShardOfEveryRegime,
                         testing::Values("normal", "flat", "peaked", "all_negative", "offset",
                                         "overflow", "ties", "masked_vocab", "edge_mass",
                                         "vanishing", "denormal", "finite_mask", "late_max",
                                         "lowest_mask", "far_offset", "buried_target",
                                         "impossible_target"));

/// Poisoned or not, element by element, against the definition.
template <typename T, typename IsPoison>
void expect_poison(const Problem& problem, const Grid& grid, IsPoison&& is_poison, bool masked_rows,
                   bool pads) {
  const PackedLayout layout = layout_of(problem, grid);
  const auto whole = gather<T>(problem, grid);
  const auto valid = problem.row_valid();
  const std::int64_t width = vocab_shard(problem.spec.vocab, grid.tp, 0).width;
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) {
    for (std::int64_t position = layout.cu_padded[i]; position < layout.cu_padded[i + 1];
         ++position) {
      const std::int64_t offset = position - layout.cu_padded[i];
      const bool pad_row = offset >= problem.lengths[i];
      const bool masked_row = !pad_row && valid[layout.cu[i] + offset] == 0;
      for (std::int64_t column = 0; column < width * grid.tp; ++column) {
        const auto shard =
            vocab_shard(problem.spec.vocab, grid.tp, static_cast<int>(column / width));
        const bool pad = pad_row || column % width >= shard.valid();
        const bool wanted = pad ? pads : masked_row && masked_rows;
        const double value = as_double(&whole[position][column]);
        ASSERT_EQ(is_poison(value), wanted) << position << ' ' << column << ' ' << value;
        if (!wanted) {
          ASSERT_TRUE(std::isfinite(value)) << position << ' ' << column;
        }
      }
    }
  }
}

TEST(Poison, StandsWhereNothingMayBeRead) {
  const auto is_nan = [](double value) { return std::isnan(value); };
  const auto is_inf = [](double value) { return value == HUGE_VAL; };
  const std::string text = "lens=5+8+0+1+6 sample_mask=11110 bin_multiple=20 vocab=37 poison=";
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const auto& [tp, cp] : kLogitGrids) {
      const Grid grid{tp, cp};
      dispatch_floating(dtype, [&](auto element) {
        using T = decltype(element);
        const std::string tail = " dtype=" + std::string(name(dtype));
        expect_poison<T>(problem_of(text + "nan" + tail), grid, is_nan, true, true);
        expect_poison<T>(problem_of(text + "inf" + tail), grid, is_inf, true, true);
        expect_poison<T>(problem_of(text + "none" + tail), grid, is_nan, false, false);
        // As in a bundle: its own values in masked rows, poison in padding only.
        Problem bundled = problem_of(text + "nan" + tail);
        bundled.poison_true_rows = false;
        expect_poison<T>(bundled, grid, is_nan, false, true);
      });
    }
  }
}

TEST(Poison, NoneLeavesPadsThatLookLikeLogits) {
  const Problem problem = problem_of("lens=1 pad_multiple=64 vocab=37 poison=none");
  const auto whole = gather<float>(problem, Grid{2, 1});
  double squares = 0;
  for (std::size_t row = 1; row < whole.size(); ++row) {
    for (const float value : whole[row]) squares += value * value;
  }
  EXPECT_NEAR(squares / (63 * 38), 1, 0.15);
  EXPECT_NE(whole[1], whole[2]);
}

TEST(LogitsShard, AnEmptyVocabularyShardIsAllPadding) {
  const Problem problem = problem_of("lens=4 vocab=10 mask=all");
  std::vector<float> shard(4 * 2);
  fill_logits_shard(problem, Grid{8, 1}, 7, 0, shard.data());
  for (const float value : shard) EXPECT_TRUE(std::isnan(value));
}

TEST(Poison, IsThatOfAnyProblemInPartsAndDummies) {
  const auto is_nan = [](double value) { return std::isnan(value); };
  const Problem problem = problem_of("lens=5+8+0+1+6 sample_mask=11110 bin_multiple=20 vocab=37");
  const Problem plain = problem_of("lens=5+8+1 bin_multiple=20 vocab=37 poison=none");
  for (const auto& [tp, cp] : kLogitGrids) {
    const Grid grid{tp, cp};
    for (const bool dummy : {false, true}) {
      expect_poison<float>(take_part(problem, {{0, 2, 3, 4}, dummy}, 2, 1), grid, is_nan, true,
                           true);
      expect_poison<float>(take_part(plain, {{1, 2}, dummy}, 2, 1), grid, is_nan, false, false);
    }
  }
  // Nothing of a dummy is valid, so all of it is poison; rows of a bundle stay as they are.
  const Problem dummy = take_part(problem, {{0, 1}, true}, 2, 1);
  for (const auto& row : gather<float>(dummy, Grid{2, 2})) {
    for (const float value : row) EXPECT_TRUE(std::isnan(value));
  }
  Problem bundled = problem;
  bundled.poison_true_rows = false;
  expect_same_bits(true_part<float>(take_part(bundled, {{1}, true}, 2, 1), Grid{2, 2}),
                   true_part<float>(take_part(bundled, {{1}, false}, 2, 1), Grid{1, 1}));
}

TEST(LogitsShard, HoldsTheRowsOfItsPart) {
  const Problem whole =
      problem_of("lens=5+8+0+3 bin_multiple=20 vocab=37 poison=none values=peaked");
  const auto rows = true_part<float>(whole, Grid{1, 1});
  const Problem part = take_part(whole, {{1, 3}, false}, 1, 1);
  const std::vector<std::vector<float>> wanted(rows.begin() + 5, rows.end());
  for (const auto& [tp, cp] : kLogitGrids) {
    expect_same_bits(true_part<float>(part, Grid{tp, cp}), wanted);
  }
}

TEST(LogitsShard, PadsDependOnSeedAndPlaceAlone) {
  const auto whole =
      gather<float>(problem_of("lens=3+5 pad_multiple=8 vocab=37 poison=none"), Grid{2, 1});
  const auto other = gather<float>(
      problem_of("lens=1+2 pad_multiple=8 vocab=37 poison=none mask=all values=ties"), Grid{2, 1});
  for (const std::size_t row : {5, 6, 7, 13, 15}) EXPECT_EQ(whole[row], other[row]);
  EXPECT_EQ(whole[2][37], other[2][37]);  // the padding column of a true row
}

TEST(LogitsShard, APackWithoutTokensIsEmpty) {
  const Problem problem = problem_of("lens=0+0");
  EXPECT_TRUE(gather<float>(problem, Grid{2, 2}).empty());
}

}  // namespace
}  // namespace lossgrid
