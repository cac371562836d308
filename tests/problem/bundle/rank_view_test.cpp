// SPDX-License-Identifier: Apache-2.0
// Rank views, read back with nothing but a JSON parser and compared with the unsharded batch.
#include "harness/problem/bundle/rank_view.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "editable_bundle.h"
#include "expect_error.h"
#include "harness/problem/batch/sharding.h"

namespace lossgrid {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kMaskedLabel = -100;

EditableBundle view_of(const ScratchFile& scratch, const Problem& problem, const Grid& grid,
                       int rank) {
  write_rank_view(scratch.path(), problem, grid, rank);
  return EditableBundle::read(scratch.path());
}

std::vector<std::int64_t> shape_in(const EditableBundle& file, const std::string& tensor) {
  return file.header.at(tensor)["shape"];
}

/// A batch whose inputs of objectives all differ.
Problem numbered(const std::string& text) {
  Problem problem = make_problem(parse_case(text));
  std::vector<float>& advantages = problem.inputs[static_cast<int>(TokenInput::advantages)];
  for (std::int64_t t = 0; t < problem.tokens(); ++t) advantages.push_back(100.0f + t);
  return problem;
}

TEST(RankView, NamesStandBesideTheBundle) {
  EXPECT_EQ(rank_view_path("a/b.safetensors", 12), "a/b.rank12.safetensors");
  EXPECT_EQ(rank_view_path("b", 0), "b.rank0.safetensors");
}

TEST(RankView, HoldsShardsWithWhatTheirRowsPredict) {
  const ScratchFile scratch;
  for (const char* dtype : {"f32", "f64"}) {
    const Problem problem =
        numbered(std::string("lens=5+8+1+3 vocab=23 pad_multiple=3 dtype=") + dtype);
    const Grid grid{2, 2};
    const std::vector<std::uint8_t> valid = problem.row_valid();
    const std::vector<std::int32_t> targets = problem.row_targets();
    std::map<std::int64_t, int> seen;  // tokens, each on both TP ranks
    for (int rank = 0; rank < 4; ++rank) {
      const EditableBundle file = view_of(scratch, problem, grid, rank);
      const nlohmann::ordered_json metadata = file.header.at("__metadata__");
      EXPECT_EQ(metadata["vocab_start"], rank % 2 == 0 ? "0" : "12");
      EXPECT_EQ(metadata["vocab_end"], rank % 2 == 0 ? "12" : "23");
      EXPECT_EQ(metadata["cp_rank"], std::to_string(rank / 2));
      EXPECT_EQ(metadata["grid"], "tp2cp2");
      const std::vector<std::int64_t> cu = pack(problem, grid).cu_seqlens_padded;
      ASSERT_THAT(shape_in(file, "logits"), ElementsAre(cu.back() / 2, 12));
      for (std::int64_t k = 0; k < cu.back() / 2; ++k) {
        const auto position = file.get<std::int64_t>("positions", k);
        const std::int64_t i = std::upper_bound(cu.begin(), cu.end(), position) - cu.begin() - 1;
        const std::int64_t offset = position - cu[i];
        const bool is_pad = offset >= problem.lengths[i];
        const std::int64_t row = problem.cu_seqlens[i] + offset;
        const bool trained = !is_pad && valid[row] != 0;
        if (!is_pad) ++seen[row];
        EXPECT_EQ(file.get<std::int64_t>("labels", k), trained ? targets[row] : kMaskedLabel);
        EXPECT_EQ(file.get<float>("mask", k), trained ? 1 : 0);
        // The token that the row predicts is the next one.
        EXPECT_EQ(file.get<float>("advantages", k), trained ? 100.0f + row + 1 : 0);
        for (std::int64_t column = 0; column < 12; ++column) {
          const std::int64_t id = 12 * (rank % 2) + column;
          const double got = std::string(dtype) == "f64"
                                 ? file.get<double>("logits", k * 12 + column)
                                 : file.get<float>("logits", k * 12 + column);
          double want = 0;
          if (id >= 23) {
            want = -std::numeric_limits<double>::infinity();
          } else if (!is_pad) {
            problem.logits->read(row, id, std::span(&want, 1));
          }
          ASSERT_EQ(got, want) << k << " " << id;
        }
      }
    }
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), problem.tokens());
    for (const auto& [row, count] : seen) EXPECT_EQ(count, 2) << row;
  }
}

TEST(RankView, HoldsHiddenStatesAndTheWeightOfItsShard) {
  const ScratchFile scratch;
  const Problem problem =
      make_problem(parse_case("lens=5+3 vocab=7 hidden=4 weight_layout=hidden_vocab "
                              "lm_head_bias=true"));
  const Grid grid{2, 1, 1, true};
  for (int rank = 0; rank < 2; ++rank) {
    const EditableBundle file = view_of(scratch, problem, grid, rank);
    ASSERT_THAT(shape_in(file, "hidden"), ElementsAre(5, 4));  // 6 + 4 padded rows, over two ranks
    ASSERT_THAT(shape_in(file, "weight"), ElementsAre(4, 4));
    ASSERT_THAT(shape_in(file, "bias"), ElementsAre(4));
    ASSERT_THAT(shape_in(file, "labels"), ElementsAre(10));  // of all rows of the CP rank
    for (std::int64_t k = 0; k < 5; ++k) {
      const std::int64_t position = 5 * rank + k;
      const bool is_pad = position == 5 || position == 9;
      const std::int64_t row = position > 5 ? position - 1 : position;
      for (std::int64_t h = 0; h < 4; ++h) {
        EXPECT_EQ(file.get<float>("hidden", k * 4 + h),
                  is_pad ? 0 : problem.projection->hidden_row(row)[h]);
      }
    }
    for (std::int64_t column = 0; column < 4; ++column) {
      const std::int64_t id = 4 * rank + column;
      for (std::int64_t h = 0; h < 4; ++h) {
        EXPECT_EQ(file.get<float>("weight", column * 4 + h),
                  id < 7 ? problem.projection->weight_row(id)[h] : 0);
      }
      EXPECT_EQ(file.get<float>("bias", column), id < 7 ? problem.projection->bias(id) : 0);
    }
  }
}

TEST(RankView, RefusesAGridThatTheBatchDoesNotFit) {
  const ScratchFile scratch;
  const Problem problem = make_problem(parse_case("lens=5+3 vocab=3"));
  expect_bad_input([&] { write_rank_view(scratch.path(), problem, Grid{4, 1}, 0); }, {"tp"});
}

}  // namespace
}  // namespace lossgrid
