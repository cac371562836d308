// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/problem.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "harness/problem/batch/sharding.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

using Ints = std::vector<std::int64_t>;
using Ids = std::vector<std::int32_t>;
using Bits = std::vector<std::uint8_t>;

Ints lengths(const std::string& text) {
  return case_lengths(parse_case(text));
}

TEST(CaseLengths, ExplicitAndUpstream) {
  EXPECT_EQ(lengths("lens=5+8+1+3"), (Ints{5, 8, 1, 3}));
  EXPECT_EQ(lengths("lens=upstream seqs=6 seq_len=512"), (Ints{128, 256, 170, 384, 128, 256}));
  EXPECT_EQ(lengths("lens=upstream seqs=4 seq_len=2"), (Ints{0, 1, 0, 1}));
  EXPECT_EQ(lengths("lens=uniform seqs=0"), Ints{});
  EXPECT_EQ(lengths("lens=lognormal seqs=2 seq_len=0"), (Ints{0, 0}));
}

TEST(CaseLengths, DistributionsHaveTheirRangeAndShape) {
  Ints uniform = lengths("lens=uniform seqs=20000 seq_len=100");
  EXPECT_EQ(*std::min_element(uniform.begin(), uniform.end()), 1);
  EXPECT_EQ(*std::max_element(uniform.begin(), uniform.end()), 100);
  EXPECT_NEAR(std::accumulate(uniform.begin(), uniform.end(), 0.0) / 20000, 50.5, 1);
  Ints lognormal = lengths("lens=lognormal seqs=20001 seq_len=1000");
  std::sort(lognormal.begin(), lognormal.end());
  EXPECT_GE(lognormal.front(), 1);
  EXPECT_EQ(lognormal.back(), 1000);
  EXPECT_NEAR(lognormal[10000], 250, 10);
  EXPECT_NEAR(lognormal[3173], 250 * 0.4493, 10);  // one sigma of 0.8 below the median
  EXPECT_NE(lengths("lens=uniform seed=1"), lengths("lens=uniform seed=2"));
}

TEST(CaseLengths, AreGivenOnce) {
  expect_bad_input([] { problem_of("lens=5+8 seqs=2"); }, {"seqs", "lens = 5+8"});
  expect_bad_input([] { problem_of("lens=5+8 seq_len=8"); }, {"seq_len", "lens = 5+8"});
}

TEST(CaseLengths, SumsThatOverflowAreRefused) {
  expect_bad_input([] { lengths("lens=2147483647+1"); }, {"lens", "2147483647 tokens"});
  expect_bad_input([] { lengths("lens=upstream seqs=1000000 seq_len=1099511627776"); },
                   {"lens", "2147483647 tokens"});
}

TEST(MakeProblem, ProductsThatOverflowAreRefused) {
  expect_bad_input([] { problem_of("lens=2147483647 pad_multiple=2"); }, {"tokens padded"});
  CaseSpec spec;
  spec.vocab = 0;
  expect_bad_input([&] { make_problem(spec); }, {"vocab", "[1, 2147483647]"});
  spec = CaseSpec{};
  spec.mask = "some";
  expect_bad_input([&] { make_problem(spec); }, {"mask", "some"});
}

TEST(MakeProblem, KeysOfTheLmHeadNeedHiddenStates) {
  for (const std::string key : {"weight_layout = hidden_vocab", "tied_embedding = true",
                                "hidden_values = one_hot", "lm_head_bias = true"}) {
    std::string text = key;
    text.erase(text.find(" = "), 3);
    text.insert(key.find(" = "), "=");
    expect_bad_input([&] { problem_of("lens=5 vocab=8 " + text); }, {key, "hidden > 0"});
    EXPECT_NO_THROW(problem_of("lens=5 vocab=8 hidden=8 " + text));
  }
}

TEST(MakeProblem, WithHiddenStatesHasTheSameBatch) {
  const Problem plain = problem_of("lens=5+8 vocab=9");
  const Problem linear = problem_of("lens=5+8 vocab=9 hidden=4");
  EXPECT_EQ(plain.projection, nullptr);
  ASSERT_NE(linear.projection, nullptr);
  EXPECT_EQ(linear.projection->tokens, 13);
  EXPECT_EQ(linear.projection->vocab, 9);
  EXPECT_EQ(linear.projection->size, 4);
  EXPECT_EQ(plain.input_ids, linear.input_ids);
  EXPECT_EQ(plain.token_mask, linear.token_mask);
  EXPECT_EQ(plain.denominators, linear.denominators);
  EXPECT_EQ(describe(linear.source), "--case \"lens=5+8 vocab=9 hidden=4\"");
}

TEST(MakeProblem, IsAPureFunctionOfTheCase) {
  const Problem a = problem_of("lens=uniform mask=ragged");
  const Problem b = problem_of("lens=uniform mask=ragged dtype=bf16 values=ties pad_multiple=64");
  EXPECT_EQ(a.lengths, b.lengths);
  EXPECT_EQ(a.input_ids, b.input_ids);
  EXPECT_EQ(a.token_mask, b.token_mask);
  EXPECT_NE(a.input_ids, problem_of("lens=uniform seed=43").input_ids);
  EXPECT_EQ(describe(a.source), "--case \"lens=uniform\"");
}

TEST(InputIds, AreInTheVocabulary) {
  const Problem problem = problem_of("lens=2000 vocab=10");
  std::set<std::int32_t> seen(problem.input_ids.begin(), problem.input_ids.end());
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 9);
}

TEST(InputIds, ShardEdgesHaveEveryEdgeAndNothingElse) {
  const Problem problem = problem_of("lens=41 vocab=101 targets=shard_edges");
  const Ids edges = shard_edge_ids(101);
  const std::set<std::int32_t> seen(problem.input_ids.begin(), problem.input_ids.end());
  EXPECT_EQ(Ids(seen.begin(), seen.end()), edges);
}

TEST(TokenMask, AllAndResponseAndBits) {
  EXPECT_EQ(problem_of("lens=3+0+2 mask=all").token_mask, (Bits{1, 1, 1, 1, 1}));
  EXPECT_EQ(problem_of("lens=10+1+4 mask=response").token_mask,
            (Bits{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(problem_of("lens=3+0+2 mask=010++11").token_mask, (Bits{0, 1, 0, 1, 1}));
}

TEST(TokenMask, RaggedIsAboutSeventyPercentAndNeverAPrefix) {
  const Problem large = problem_of("lens=10000 mask=ragged");
  EXPECT_NEAR(std::accumulate(large.token_mask.begin(), large.token_mask.end(), 0), 7000, 150);
  for (int seed = 0; seed < 50; ++seed) {
    const Problem problem = problem_of("lens=3+4+5+6+7 mask=ragged seed=" + std::to_string(seed));
    for (std::int64_t i = 0; i < problem.sequences(); ++i) {
      const auto first = problem.token_mask.begin() + problem.cu_seqlens[i] + 1;
      const auto last = problem.token_mask.begin() + problem.cu_seqlens[i + 1];
      EXPECT_FALSE(std::is_sorted(first, last, std::greater<>())) << seed << ' ' << i;
    }
  }
}

TEST(TokenMask, SparseIsAboutFivePercentAndNeverEmpty) {
  const Problem large = problem_of("lens=10000 mask=sparse");
  EXPECT_NEAR(std::accumulate(large.token_mask.begin(), large.token_mask.end(), 0), 500, 90);
  for (int seed = 0; seed < 100; ++seed) {
    const std::string with_seed = " mask=sparse seed=" + std::to_string(seed);
    EXPECT_GE(problem_of("lens=1+0+4" + with_seed).denominators.valid_tokens, 1);
    EXPECT_GE(problem_of("lens=4+3 sample_mask=01" + with_seed).denominators.valid_tokens, 1);
    EXPECT_EQ(problem_of("lens=1+0+1" + with_seed).denominators.valid_tokens, 0);
  }
}

TEST(SampleMask, OnesAlternateAndBits) {
  EXPECT_EQ(problem_of("lens=1+1+1").sample_mask, (Bits{1, 1, 1}));
  EXPECT_EQ(problem_of("lens=1+1+1 sample_mask=alternate").sample_mask, (Bits{1, 0, 1}));
  EXPECT_EQ(problem_of("lens=1+1+1 sample_mask=011").sample_mask, (Bits{0, 1, 1}));
}

TEST(Masks, BitsThatDoNotFitAreRefused) {
  expect_bad_input([] { problem_of("lens=3+2 mask=111"); }, {"mask", "1 sequences", "2"});
  expect_bad_input([] { problem_of("lens=3+2 mask=111+1"); },
                   {"mask", "1 bits", "sequence 1", "2"});
  expect_bad_input([] { problem_of("lens=3+2 sample_mask=111"); }, {"sample_mask", "3 bits", "2"});
}

TEST(Denominators, CountTargetsExactly) {
  // First tokens never count, and neither do masked samples.
  const Problem all = problem_of("lens=5+8+1+0+3 mask=all");
  EXPECT_EQ(all.denominators, (Denominators{4 + 7 + 0 + 0 + 2, 5}));
  const Problem bits = problem_of("lens=3+4 mask=101+0110 sample_mask=11");
  EXPECT_EQ(bits.denominators, (Denominators{1 + 2, 2}));
  EXPECT_EQ(problem_of("lens=3+4 mask=101+0110 sample_mask=01").denominators, (Denominators{2, 1}));
  EXPECT_EQ(problem_of("lens=3+4 mask=000+0000").denominators, (Denominators{0, 2}));
}

TEST(Denominators, AreTakenFromTheGlobalBatch) {
  const Problem problem = problem_of("lens=5+7 mask=all global_valid_toks=16 global_valid_seqs=5");
  EXPECT_EQ(problem.denominators, (Denominators{16, 5}));
  expect_bad_input([] { problem_of("lens=5+7 mask=all global_valid_toks=9"); },
                   {"global_valid_toks = 9", "10"});
  expect_bad_input([] { problem_of("lens=5+7 global_valid_seqs=1"); },
                   {"global_valid_seqs = 1", "2"});
}

TEST(Mask, LeavesOutAPrompt) {
  EXPECT_EQ(problem_of("lens=5+2+3 mask=prompt3").token_mask, (Bits{0, 0, 0, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(problem_of("lens=3 mask=prompt0").token_mask, (Bits{1, 1, 1}));
  expect_bad_input([] { parse_case("mask=prompt"); }, {"prompt of mask"});
  expect_bad_input([] { parse_case("mask=promp3"); }, {"prompt16"});
}

TEST(Denominators, AgreeWithTheValidRows) {
  for (const std::string mask : {"all", "ragged", "response", "prompt9", "sparse"}) {
    const Problem problem =
        problem_of("lens=uniform seq_len=40 sample_mask=alternate mask=" + mask);
    const Bits valid = problem.row_valid();
    EXPECT_EQ(std::accumulate(valid.begin(), valid.end(), std::int64_t{0}),
              problem.denominators.valid_tokens);
  }
}

TEST(Rows, PredictTheNextTokenOfTheirSequence) {
  const Problem problem = problem_of("lens=3+0+1+2 mask=011++1+10");
  const Ids& ids = problem.input_ids;
  EXPECT_EQ(problem.row_targets(), (Ids{ids[1], ids[2], -1, -1, ids[5], -1}));
  EXPECT_EQ(problem.row_valid(), (Bits{1, 1, 0, 0, 0, 0}));
}

TEST(RequireFits, NamesTheSizeThatDoesNotFit) {
  const Problem problem = problem_of("lens=5+8 vocab=10");
  EXPECT_NO_THROW(require_fits(problem, Grid{10, 8}));
  expect_bad_input(
      [&] {
        require_fits(problem, Grid{16, 1});
      },
      {"tp = 16 exceeds the vocabulary of 10"});
  expect_bad_input([&] { require_fits(problem, Grid{0, 1}); }, {"tp = 0"});
  expect_bad_input([&] { require_fits(problem, Grid{1, 1, 0}); }, {"dp = 0"});
  expect_bad_input([&] { require_fits(problem, Grid{.pp = 0}); }, {"pp = 0"});
  const Problem wide = problem_of("lens=5 pad_multiple=1073741823");
  EXPECT_NO_THROW(require_fits(wide, Grid{1, 1}));
  expect_bad_input([&] { require_fits(wide, Grid{1, 2}); }, {"tokens padded", "4294967292"});
  // Hidden states split by tp need more padding than the grid without SP.
  const Problem linear = problem_of("lens=5 pad_multiple=1073741823 hidden=2 vocab=8");
  EXPECT_NO_THROW(require_fits(linear, Grid{4, 1}));
  expect_bad_input(
      [&] {
        require_fits(linear, Grid{4, 1, 1, true});
      },
      {"tokens padded", "4294967292"});
}

}  // namespace
}  // namespace lossgrid
