// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

using Ints = std::vector<std::int64_t>;

TEST(Pack, HoldsTheTokensWithTrueLengths) {
  const Problem problem = problem_of("lens=5+8+1+3 bin_multiple=32");
  const PackedBatch batch = pack(problem, Grid{1, 2});
  EXPECT_EQ(batch.cu_seqlens, (Ints{0, 5, 13, 14, 17}));
  EXPECT_EQ(batch.cu_seqlens_padded, (Ints{0, 8, 16, 20, 32}));
  EXPECT_EQ(batch.input_ids, problem.input_ids);
  EXPECT_EQ(batch.token_mask, problem.token_mask);
  EXPECT_EQ(batch.denominators, problem.denominators);
}

TEST(Pack, HoldsUnmaskedPadsWithPaddedLengths) {
  const Problem problem = problem_of("lens=5+8+1+3 mask=all cu=padded vocab=1000");
  const PackedBatch batch = pack(problem, Grid{1, 2});
  EXPECT_EQ(batch.cu_seqlens, batch.cu_seqlens_padded);
  ASSERT_EQ(batch.input_ids.size(), 24u);
  ASSERT_EQ(batch.token_mask.size(), 24u);
  std::set<std::int32_t> pad_ids;
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t o = 0; o < batch.padded_length(i); ++o) {
      const std::int64_t at = batch.cu_seqlens_padded[i] + o;
      EXPECT_EQ(batch.token_mask[at], o < problem.lengths[i]);
      if (o < problem.lengths[i]) {
        EXPECT_EQ(batch.input_ids[at], problem.input_ids[problem.cu_seqlens[i] + o]);
      } else {
        pad_ids.insert(batch.input_ids[at]);
      }
    }
  }
  EXPECT_GT(pad_ids.size(), 4u);  // no single pad id to special-case
  EXPECT_GE(*pad_ids.begin(), 0);
  EXPECT_LT(*pad_ids.rbegin(), 1000);
  EXPECT_EQ(batch.denominators, problem.denominators);
}

TEST(Pack, BothModesHaveTheSameValidTargets) {
  for (const int cp : {1, 2, 4}) {
    const std::string text = "lens=5+8+0+1+7 sample_mask=alternate bin_multiple=24 cu=";
    const ShiftedBatch exact = shift_targets(pack(problem_of(text + "true"), Grid{1, cp}));
    const ShiftedBatch padded = shift_targets(pack(problem_of(text + "padded"), Grid{1, cp}));
    EXPECT_EQ(exact.valid, padded.valid);
    EXPECT_EQ(exact.sequence, padded.sequence);
    for (std::size_t row = 0; row < exact.valid.size(); ++row) {
      if (exact.valid[row] != 0) {
        EXPECT_EQ(exact.targets[row], padded.targets[row]);
      }
    }
  }
}

/// A case whose inputs are numbers that name input and token: 100 k + t.
Problem with_inputs(const std::string& text) {
  Problem problem = problem_of(text);
  for (int k = 0; k < kTokenInputs; ++k) {
    for (std::int64_t t = 0; t < problem.tokens(); ++t) {
      problem.inputs[k].push_back(static_cast<float>(100 * k + t));
    }
  }
  problem.inputs[1].clear();
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    problem.rewards.push_back(static_cast<float>(i));
  }
  problem.denominators.positive_tokens = 11;
  problem.microbatch = {5, 3, true};
  return problem;
}

TEST(Pack, HoldsWhatIsKnownOfTheBatch) {
  for (const std::string cu : {"true", "padded"}) {
    const Problem problem = with_inputs("lens=5+8+0+3 bin_multiple=32 cu=" + cu);
    const PackedBatch batch = pack(problem, Grid{1, 2});
    EXPECT_EQ(batch.input_lengths, (Ints{5, 8, 0, 3}));
    EXPECT_EQ(batch.rewards, problem.rewards);
    EXPECT_EQ(batch.denominators, problem.denominators);
    EXPECT_EQ(batch.denominators.positive_tokens, 11);
    EXPECT_EQ(batch.microbatch.count, 5);
    EXPECT_EQ(batch.microbatch.dp, 3);
    EXPECT_TRUE(batch.microbatch.dummy);
    EXPECT_TRUE(batch.inputs[1].empty());
  }
}

TEST(Pack, HoldsInputsByTokenWithTrueLengths) {
  const Problem problem = with_inputs("lens=5+8+0+3");
  EXPECT_EQ(pack(problem, Grid{1, 2}).inputs, problem.inputs);
}

TEST(Pack, PoisonsTheInputsOfPadsWithPaddedLengths) {
  for (const std::string poison : {"nan", "inf", "none"}) {
    const PackedBatch batch =
        pack(with_inputs("lens=5+8+0+3 cu=padded poison=" + poison), Grid{1, 2});
    int pads = 0;
    for (const int k : {0, 2, 3}) {
      ASSERT_EQ(batch.inputs[k].size(), 20u);
      std::int64_t token = 0;
      for (std::int64_t i = 0; i < 4; ++i) {
        for (std::int64_t o = 0; o < batch.padded_length(i); ++o) {
          const float value = batch.inputs[k][batch.cu_seqlens_padded[i] + o];
          if (o < batch.input_lengths[i]) {
            EXPECT_EQ(value, static_cast<float>(100 * k + token++));
          } else if (poison == "nan") {
            EXPECT_TRUE(std::isnan(value));
          } else {
            EXPECT_EQ(value, poison == "inf" ? HUGE_VALF : 0.0f);
          }
          pads += o < batch.input_lengths[i] ? 0 : 1;
        }
      }
    }
    EXPECT_EQ(pads, 3 * 4);
  }
}

TEST(Pack, ShiftsToTheSameInputsInBothModes) {
  const std::string text = "lens=5+8+0+1+7 sample_mask=alternate bin_multiple=24 cu=";
  for (const int cp : {1, 2, 4}) {
    const ShiftedBatch exact = shift_targets(pack(with_inputs(text + "true"), Grid{1, cp}));
    const ShiftedBatch padded = shift_targets(pack(with_inputs(text + "padded"), Grid{1, cp}));
    for (std::size_t row = 0; row < exact.rows(); ++row) {
      if (exact.valid[row] == 0) continue;
      for (const int k : {0, 2, 3}) EXPECT_EQ(exact.inputs[k][row], padded.inputs[k][row]);
    }
  }
}

TEST(TokenInputs, HaveTheNamesOfBundles) {
  EXPECT_EQ(name(TokenInput::advantages), "advantages");
  EXPECT_EQ(name(TokenInput::prev_logprobs), "prev_logprobs");
  EXPECT_EQ(name(TokenInput::generation_logprobs), "generation_logprobs");
  EXPECT_EQ(name(TokenInput::reference_policy_logprobs), "reference_policy_logprobs");
}

}  // namespace
}  // namespace lossgrid
