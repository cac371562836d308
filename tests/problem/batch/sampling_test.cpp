// SPDX-License-Identifier: Apache-2.0
// Cases with filters of a sampler: their kept sets, targets inside and outside of them, and bits of
// vocab shards.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/sharding.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

constexpr double kOutside = -std::numeric_limits<double>::infinity();

std::vector<double> row_of(const LogitsSource& source, std::int64_t t, std::int64_t vocab) {
  std::vector<double> row(static_cast<std::size_t>(vocab));
  source.read(t, 0, std::span<double>(row));
  return row;
}

TEST(SamplingCase, KeysAreChecked) {
  expect_bad_input([] { problem_of("lens=5 vocab=7 top_k=8"); }, {"top_k = 8", "vocab = 7"});
  expect_bad_input([] { problem_of("lens=5 vocab=7 top_k=-1"); }, {"top_k"});
  for (const char* p : {"0", "-0.5", "1.5", "nan"}) {
    expect_bad_input([&] { problem_of(std::string("lens=5 vocab=7 top_p=") + p); }, {"top_p"});
  }
  expect_bad_input([] { problem_of("lens=5 vocab=7 filtered_targets=zero"); },
                   {"filtered_targets", "top_k or top_p"});
  expect_bad_input([] { problem_of("lens=5 vocab=7 top_k=3 filtered_targets=skip"); },
                   {"filtered_targets", "skip"});
}

TEST(SamplingCase, LogitsOutsideAreMinusInfinityAndAllOthersStay) {
  const Problem problem = problem_of("lens=9+5 vocab=13 top_k=4 temperature=0.5");
  for (std::int64_t t = 0; t < problem.tokens(); ++t) {
    const std::vector<double> given = row_of(problem.given_logits(), t, 13);
    const std::vector<double> z = row_of(*problem.logits, t, 13);
    int kept = 0;
    for (std::size_t v = 0; v < z.size(); ++v) {
      if (!problem.sampling_mask->keeps(t, static_cast<std::int64_t>(v))) {
        EXPECT_EQ(z[v], kOutside);
        continue;
      }
      EXPECT_DOUBLE_EQ(z[v], 2 * given[v]);
      ++kept;
    }
    EXPECT_EQ(kept, 4);
  }
}

/// A temperature changes what top p keeps: it comes before.
TEST(SamplingCase, FiltersFollowTheTemperature) {
  const auto count = [](const Problem& problem) {
    std::int64_t kept = 0;
    for (std::int64_t v = 0; v < 41; ++v) kept += problem.sampling_mask->keeps(0, v);
    return kept;
  };
  EXPECT_LT(count(problem_of("lens=2 vocab=41 top_p=0.8 temperature=0.3")),
            count(problem_of("lens=2 vocab=41 top_p=0.8 temperature=3")));
}

TEST(SamplingCase, SomeTargetsAreOutside) {
  const Problem kept = problem_of("lens=200 mask=all vocab=41 top_k=4 filtered_targets=zero");
  const std::vector<std::int32_t> targets = kept.row_targets();
  std::int64_t outside = 0;
  for (std::int64_t t = 0; t < kept.tokens(); ++t) {
    outside += kept.leaves_out_target(t, targets[static_cast<std::size_t>(t)]);
  }
  EXPECT_GT(outside, 20);
  EXPECT_LT(outside, 100);
  EXPECT_EQ(kept.denominators.valid_tokens, 199);

  const Problem dropped = problem_of("lens=200 mask=all vocab=41 top_k=4");
  EXPECT_EQ(dropped.input_ids, kept.input_ids);
  EXPECT_EQ(dropped.denominators.valid_tokens, 199 - outside);
  const std::vector<std::uint8_t> valid = dropped.row_valid();
  for (std::int64_t t = 0; t + 1 < 200; ++t) {
    EXPECT_EQ(valid[static_cast<std::size_t>(t)] == 0,
              dropped.leaves_out_target(t, targets[static_cast<std::size_t>(t)]))
        << t;
  }
}

TEST(SamplingCase, PartsReadTheRowsOfTheWhole) {
  const Problem whole = problem_of("lens=3+4+5 mask=all vocab=11 top_k=3 microbatches=3");
  for (const auto& of_rank : partition(whole, 1, 1)) {
    for (const MicrobatchPlan& plan : of_rank) {
      const Problem part = take_part(whole, plan, 3, 1);
      for (std::int64_t t = 0; t < part.tokens(); ++t) {
        EXPECT_EQ(row_of(*part.logits, t, 11), row_of(*whole.logits, part.whole_row(t), 11));
      }
    }
  }
}

TEST(SamplingCase, ShardsHoldTheBitsOfTheirColumns) {
  const Problem problem = problem_of("lens=3+5 mask=all vocab=150 top_k=70 pad_multiple=4");
  const Grid grid{2, 2};
  const PackedLayout layout = layout_of(problem, grid);
  for (int tp_rank = 0; tp_rank < 2; ++tp_rank) {
    const VocabShard shard = vocab_shard(150, 2, tp_rank);
    const auto row_words = static_cast<std::size_t>(mask_words(shard.width));
    for (int cp_rank = 0; cp_rank < 2; ++cp_rank) {
      const std::vector<std::int64_t> positions = cp_rows(layout.cu_padded, grid, cp_rank);
      std::vector<std::uint64_t> words(positions.size() * row_words);
      fill_mask_shard(problem, grid, tp_rank, cp_rank, words.data());
      for (std::size_t k = 0; k < positions.size(); ++k) {
        for (std::int64_t i = 0; i < 2; ++i) {
          const std::int64_t t = positions[k] - layout.cu_padded[i];
          if (t < 0 || t + 1 >= problem.lengths[i]) continue;
          for (std::int64_t v = shard.begin; v < shard.end; ++v) {
            const auto column = static_cast<std::size_t>(v - shard.begin);
            const bool bit = (words[k * row_words + column / 64] >> (column % 64) & 1) != 0;
            EXPECT_EQ(bit, problem.sampling_mask->keeps(problem.cu_seqlens[i] + t, v));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lossgrid
