// SPDX-License-Identifier: Apache-2.0
// The criterion for gradients of hidden states and weight: it accepts plain float32 loops in every
// value regime, and rejects wrong ones.
#include "harness/verify/checks/linear_checks.h"

#include <limits>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/problem/batch/partition.h"
#include "harness/verify/checks/output_checks.h"
#include "linear_emulation.h"

namespace lossgrid {
namespace {

Check bias_of(const LinearFindings& found) {
  return check_bias(found.bias, found.elements.name() + "_bias");
}

bool passes(const LinearFindings& found) {
  return found.elements.passed() && found.l2.passed() && bias_of(found).passed() &&
         found.not_written + found.nonzero_masked == 0;
}

std::string describe(const LinearFindings& found) {
  return fmt::format("{} {}, {} {}, bias {}", found.elements.name(), found.elements.ratio(),
                     found.l2.name(), found.l2.ratio(), bias_of(found).ratio());
}

struct Setting {
  const char* values;
  const char* dtype;
};

class LinearCriterion : public ::testing::TestWithParam<Setting> {
 protected:
  static LinearCase make(int seed, const std::string& shape) {
    return make_linear_case(fmt::format("{} values={} dtype={} seed={}", shape, GetParam().values,
                                        GetParam().dtype, seed));
  }
};

constexpr const char* kShape = "lens=17+9+14 mask=all vocab=200 hidden=48 temperature=0.7";

TEST_P(LinearCriterion, HoldsForPlainLoops) {
  for (int seed = 1; seed <= 8; ++seed) {
    const LinearCase c = make(seed, kShape);
    EmulationOptions options;
    options.chunks = 1 + seed % 4;
    options.before = seed % 2 == 0 ? 0.0f : 1e-3f;
    EmulatedOutputs got = emulate(c, options);
    const LinearFindings hidden = judge_hidden(c, got.hidden);
    const LinearFindings weight = judge_weight(c, got, options);
    EXPECT_TRUE(passes(hidden)) << "seed " << seed << ": " << describe(hidden);
    EXPECT_TRUE(passes(weight)) << "seed " << seed << ": " << describe(weight);
    EXPECT_EQ(hidden.elements.compared(), (16 + 8 + 13) * c.size());
    EXPECT_EQ(hidden.l2.compared(), 1);
    EXPECT_EQ(weight.elements.compared(), c.vocab() * c.size());
    const TokenOutputs tokens = got.tokens();
    for (const Check& check :
         check_tokens(c.problem, c.truth, c.places, tokens, {}, static_cast<int>(c.vocab()), 0)) {
      EXPECT_TRUE(check.passed()) << "seed " << seed << ": " << check.name() << check.ratio();
    }
  }
}

TEST_P(LinearCriterion, SeesAShardWithoutItsGradient) {
  const LinearCase c = make(3, kShape);
  EmulationOptions options;
  options.drop_begin = 100;
  options.drop_end = 150;
  const EmulatedOutputs got = emulate(c, options);
  EXPECT_FALSE(judge_hidden(c, got.hidden).elements.passed());
  EXPECT_FALSE(judge_weight(c, got).elements.passed());
}

TEST_P(LinearCriterion, SeesNeighboursSwapped) {
  const LinearCase c = make(4, kShape);
  EmulatedOutputs got = emulate(c);
  std::swap_ranges(got.hidden.begin(), got.hidden.begin() + c.size(),
                   got.hidden.begin() + c.size());
  const std::int64_t id = c.rows[0].target;
  const std::int64_t other = id == 0 ? 1 : id - 1;
  std::swap_ranges(got.weight.begin() + id * c.size(), got.weight.begin() + (id + 1) * c.size(),
                   got.weight.begin() + other * c.size());
  EXPECT_FALSE(judge_hidden(c, got.hidden).elements.passed());
  EXPECT_FALSE(judge_weight(c, got).elements.passed());
}

TEST_P(LinearCriterion, JudgesABiasApart) {
  const std::string shape = std::string(kShape) + " lm_head_bias=true";
  for (int seed = 1; seed <= 4; ++seed) {
    const LinearCase c = make(seed, shape);
    EmulationOptions options;
    options.chunks = 1 + seed % 4;
    const EmulatedOutputs got = emulate(c, options);
    for (const LinearFindings& found : {judge_hidden(c, got.hidden), judge_weight(c, got, options),
                                        judge_bias(c, got, options)}) {
      EXPECT_TRUE(passes(found)) << "seed " << seed << ": " << describe(found);
    }
    EXPECT_EQ(judge_weight(c, got, options).elements.compared(), c.vocab() * c.size());
    EXPECT_EQ(judge_bias(c, got, options).elements.compared(), c.vocab());
    EXPECT_EQ(judge_bias(c, got, options).elements.name(), "grad_bias");
  }
  const LinearCase c = make(5, shape);
  EmulatedOutputs got = emulate(c);
  const std::int64_t target = c.rows[0].target;
  got.weight[target * c.factors() + c.size()] *= 0.5;
  EXPECT_TRUE(passes(judge_weight(c, got)));
  EXPECT_FALSE(judge_bias(c, got).elements.passed());
}

INSTANTIATE_TEST_SUITE_P(
    Regimes, LinearCriterion,
    ::testing::Values(Setting{"normal", "f32"}, Setting{"normal", "bf16"}, Setting{"flat", "f32"},
                      Setting{"flat", "bf16"}, Setting{"peaked", "f32"}, Setting{"peaked", "bf16"},
                      Setting{"offset", "f32"}, Setting{"offset", "bf16"},
                      Setting{"overflow", "f32"}, Setting{"overflow", "bf16"},
                      Setting{"all_negative", "f32"}, Setting{"all_negative", "bf16"}),
    [](const auto& info) { return fmt::format("{}_{}", info.param.values, info.param.dtype); });

/// Expects plain loops to pass on a case, with tokens and gradients.
void expect_holds(const std::string& text) {
  const LinearCase c = make_linear_case(text);
  EmulatedOutputs got = emulate(c);
  const LinearFindings hidden = judge_hidden(c, got.hidden);
  const LinearFindings weight = judge_weight(c, got);
  EXPECT_TRUE(passes(hidden)) << text << ": " << describe(hidden);
  EXPECT_TRUE(passes(weight)) << text << ": " << describe(weight);
  const TokenOutputs tokens = got.tokens();
  for (const Check& check :
       check_tokens(c.problem, c.truth, c.places, tokens, {}, static_cast<int>(c.vocab()), 0)) {
    EXPECT_TRUE(check.passed()) << text << ": " << check.name() << " " << check.ratio();
  }
}

TEST(LinearChecks, HoldWhereAllGradientsOfLogitsRoundTheSameWay) {
  // dz near the middle of two bf16 numbers, the same in all rows, and a coordinate that is 16 in
  // all of them: roundings add up instead of cancelling.
  expect_holds("lens=7840 mask=all vocab=24 hidden=8 values=all_negative scale=0.01 dtype=bf16");
}

TEST(LinearChecks, HoldForLongSumsOfOneSign) {
  // A sum that grows to its end is rounded more than one of random signs.
  expect_holds("lens=7840 mask=all vocab=24 hidden=8 values=all_negative scale=0.01");
  expect_holds("lens=61 mask=all vocab=300 hidden=800 values=peaked");
}

TEST(LinearChecks, HoldWithNonlinearObjectives) {
  for (const char* objective : {"dpo", "clipped_pg objective.token_level_loss=false"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      expect_holds(
          fmt::format("objective={} lens=17+9+14+12 mask=response vocab=200 hidden=48 "
                      "temperature=1.3 dtype={}",
                      objective, dtype));
    }
  }
}

TEST(LinearChecks, SeeABiasOfFourPerMille) {
  for (const char* dtype : {"f32", "bf16"}) {
    const LinearCase c = make_linear_case(std::string(kShape) + " dtype=" + dtype);
    EmulationOptions options;
    options.scale = 1.004f;
    const EmulatedOutputs got = emulate(c, options);
    EXPECT_FALSE(bias_of(judge_hidden(c, got.hidden)).passed()) << dtype;
    EXPECT_FALSE(bias_of(judge_weight(c, got)).passed()) << dtype;
  }
  // In bf16 no element of the hidden states shows it.
  const LinearCase c = make_linear_case(std::string(kShape) + " dtype=bf16");
  EmulationOptions options;
  options.scale = 1.004f;
  EXPECT_TRUE(judge_hidden(c, emulate(c, options).hidden).elements.passed());
}

TEST(LinearChecks, SeeAWeightThatIsAddedUpInBf16) {
  for (const char* dtype : {"f32", "bf16"}) {
    const LinearCase c =
        make_linear_case(std::string("lens=256 mask=all vocab=64 hidden=32 dtype=") + dtype);
    EmulationOptions options;
    options.chunks = 64;
    options.before = 1.5f;  // rounded as often
    EXPECT_TRUE(passes(judge_weight(c, emulate(c, options), options))) << dtype;
    options.before = 0;
    EXPECT_TRUE(passes(judge_weight(c, emulate(c, options), options))) << dtype;
    options.weight_in_bf16 = true;
    EXPECT_FALSE(passes(judge_weight(c, emulate(c, options), options))) << dtype;
  }
}

TEST(LinearChecks, OneDeclaredRoundingDoesNotHideASumInBf16) {
  // With dz in float32 two parts are seen, with dz in bf16, whose roundings are as large, 32.
  const LinearCase c =
      make_linear_case("lens=256 mask=all vocab=64 hidden=32 dtype=bf16 values=peaked");
  for (const auto& [of_dz, seen] : {std::pair(DType::f32, 2), std::pair(DType::bf16, 32)}) {
    const DeclaredRoundings once{
        .grad_logits = of_dz, .weight_part = DType::bf16, .weight_sum = DType::bf16};
    for (const std::int64_t parts : {1, seen, 2 * seen}) {
      EmulationOptions options;
      options.dz_in_bf16 = of_dz == DType::bf16;
      options.weight_in_bf16 = true;
      options.chunks = parts;
      const EmulatedOutputs got = emulate(c, options);
      const LinearFindings found =
          check_grad_weight(c.problem, c.truth, vocab_shard(c.vocab(), 1, 0), got.weight,
                            std::vector<double>(got.weight.size(), 0.0), once, 0);
      EXPECT_EQ(found.elements.passed() && found.l2.passed(), parts == 1)
          << name(of_dz) << ", " << parts << " parts: " << found.elements.ratio() << ", "
          << found.l2.ratio();
    }
  }
}

TEST(LinearChecks, ABlockOfLargeRoundingsIsSeenByItsNorm) {
  // Every element off by two roundings, with random signs: no element shows it, and no bias.
  const LinearCase c = make_linear_case("lens=40 mask=all vocab=130 hidden=16 dtype=bf16");
  const LinearRows& truth = c.truth.linear->weight;
  EmulatedOutputs got;
  double error_squared = 0;
  double want_squared = 0;
  for (std::size_t k = 0; k < truth.want.size(); ++k) {
    const double error = (k % 3 == 0 || k % 7 == 0 ? 2 : -2) * 0x1p-8 * truth.spread[k];
    got.weight.push_back(truth.want[k] + error);
    error_squared += error * error;
    want_squared += truth.want[k] * truth.want[k];
  }
  const LinearFindings found = judge_weight(c, got);
  EXPECT_TRUE(found.elements.passed());
  EXPECT_FALSE(found.l2.passed());
  EXPECT_EQ(found.l2.compared(), 3);  // blocks of 64 rows
  EXPECT_EQ(found.l2.beyond_bound(), 3);
  EXPECT_NEAR(found.error_squared, error_squared, 1e-9 * error_squared);
  EXPECT_NEAR(found.want_squared, want_squared, 1e-9 * want_squared);
  EXPECT_TRUE(bias_of(found).passed()) << describe(found);
}

TEST(LinearChecks, SeeMaskedRowsAndWhatWasNotWritten) {
  const LinearCase c = make_linear_case("lens=6 mask=011011 vocab=20 hidden=5");
  const EmulatedOutputs right = emulate(c);
  ASSERT_TRUE(passes(judge_hidden(c, right.hidden)));

  EmulatedOutputs wrong = right;
  wrong.hidden[2 * 5 + 4] = 1e-30f;  // row 2 predicts token 3, which is masked
  LinearFindings found = judge_hidden(c, wrong.hidden);
  EXPECT_EQ(found.nonzero_masked, 1);
  EXPECT_EQ(found.first_misplaced.token, 2);
  EXPECT_TRUE(found.elements.passed());

  const float poison = std::bit_cast<float>(std::uint32_t{kPoisonPattern} * 0x10001u);
  for (const std::size_t row : {1, 2, 5}) {  // trained on, masked, the last of its sequence
    wrong = right;
    wrong.hidden[row * 5] = poison;
    found = judge_hidden(c, wrong.hidden);
    EXPECT_EQ(found.not_written, 1);
    EXPECT_EQ(found.nonzero_masked, 0);
    EXPECT_EQ(found.first_misplaced.token, static_cast<std::int64_t>(row));
  }

  wrong = right;
  wrong.hidden[2 * 5] = poison;  // one of each kind, and then another
  wrong.hidden[2 * 5 + 4] = 1e-30f;
  wrong.hidden[5 * 5] = poison;
  found = judge_hidden(c, wrong.hidden);
  EXPECT_EQ(found.not_written, 2);
  EXPECT_EQ(found.nonzero_masked, 1);
  EXPECT_EQ(found.first_misplaced.token, 2);

  wrong = right;
  wrong.hidden[0] = std::numeric_limits<float>::quiet_NaN();
  found = judge_hidden(c, wrong.hidden);
  EXPECT_FALSE(found.elements.passed());
  EXPECT_FALSE(found.l2.passed());
}

TEST(LinearChecks, RowsThatASampleLeavesOutAreLookedAt) {
  LinearCase c = make_linear_case("lens=30 mask=all vocab=20 hidden=5 dtype=bf16");
  const EmulatedOutputs right = emulate(c);
  c.truth.linear = std::make_shared<const LinearTruth>(make_linear_truth(
      c.problem, c.rows, c.truth.objective, 20, 1, {std::int64_t{1} << 40, 3 * 5}));
  const LinearFindings found = judge_hidden(c, right.hidden);
  EXPECT_TRUE(passes(found));
  EXPECT_EQ(found.elements.compared(), 3 * 5);
  EmulatedOutputs wrong = right;
  wrong.hidden[7 * 5] = static_cast<float>(std::bit_cast<bf16>(kPoisonPattern));
  EXPECT_EQ(judge_hidden(c, wrong.hidden).not_written, 1);

  const std::size_t ids = c.truth.linear->weight.rows.size();
  ASSERT_LT(ids, 20u);
  std::vector<double> rows;
  for (const std::int64_t id : c.truth.linear->weight.rows) {
    rows.insert(rows.end(), right.weight.begin() + id * 5, right.weight.begin() + (id + 1) * 5);
  }
  const std::vector<double> before(rows.size(), 0.0);
  const VocabShard all = vocab_shard(20, 1, 0);
  EXPECT_TRUE(passes(check_grad_weight(c.problem, c.truth, all, rows, before, {DType::bf16}, 0)));
  EXPECT_THROW(check_grad_weight(c.problem, c.truth, all, right.weight, before, {DType::bf16}, 0),
               Error);
}

TEST(LinearChecks, PartsAndShardsAddUpToTheWhole) {
  const LinearCase c = make_linear_case("lens=9+6+7+4 mask=all vocab=30 hidden=5 microbatches=2");
  const EmulatedOutputs got = emulate(c);
  LinearFindings parts("grad_hidden");
  for (const std::vector<MicrobatchPlan>& of_rank : partition(c.problem, 1, 1)) {
    for (const MicrobatchPlan& plan : of_rank) {
      LinearCase part{take_part(c.problem, plan, 2, 1), nullptr, {}, {}, {}};
      part.truth = take_part(c.truth, part.problem);
      std::vector<std::int64_t> positions(static_cast<std::size_t>(part.problem.tokens()));
      std::iota(positions.begin(), positions.end(), 0);
      part.places = place_rows(part.problem, part.problem.cu_seqlens, positions);
      std::vector<float> hidden;
      for (const std::int64_t t : positions) {
        const auto row = got.hidden.begin() + part.problem.whole_row(t) * 5;
        hidden.insert(hidden.end(), row, row + 5);
      }
      const LinearFindings found = judge_hidden(part, hidden);
      EXPECT_TRUE(passes(found)) << describe(found);
      parts.add(found);
    }
  }
  const LinearFindings whole = judge_hidden(c, got.hidden);
  EXPECT_EQ(parts.elements.compared(), whole.elements.compared());
  EXPECT_NEAR(parts.error_squared, whole.error_squared, 1e-9 * whole.error_squared);
  EXPECT_NEAR(parts.want_squared, whole.want_squared, 1e-9 * whole.want_squared);
  EXPECT_NEAR(parts.bias.out_truth, whole.bias.out_truth, 1e-9 * whole.bias.out_truth);

  LinearFindings shards("grad_weight");
  for (int rank = 0; rank < 4; ++rank) {
    const VocabShard shard = vocab_shard(30, 4, rank);
    const std::span<const double> rows(got.weight.data() + shard.begin * 5,
                                       static_cast<std::size_t>(shard.valid() * 5));
    const std::vector<double> before(rows.size(), 0.0);
    shards.add(check_grad_weight(c.problem, c.truth, shard, rows, before, {}, rank));
  }
  EXPECT_TRUE(passes(shards)) << describe(shards);
  EXPECT_EQ(shards.elements.compared(), 30 * 5);
}

TEST(LinearChecks, TheInitialValueIsNotTheGradient) {
  const LinearCase c = make_linear_case("lens=9 mask=all vocab=30 hidden=5");
  EmulationOptions options;
  options.before = 0.5f;
  const EmulatedOutputs got = emulate(c, options);
  EXPECT_TRUE(passes(judge_weight(c, got, options)));
  EXPECT_FALSE(passes(judge_weight(c, got)));  // as if the buffer had been empty
}

TEST(LinearFindings, AddUpAndKeepTheFirstMisplacedElement) {
  LinearFindings first;
  first.not_written = 2;
  first.nonzero_masked = 2;
  first.first_misplaced = {0, 1, 2};
  LinearFindings second;
  second.not_written = 3;
  second.nonzero_masked = 4;
  second.first_misplaced = {5, 6, 7};
  LinearFindings all;
  all.add(first);
  all.add(second);
  EXPECT_EQ(all.not_written, 5);
  EXPECT_EQ(all.nonzero_masked, 6);
  EXPECT_EQ(all.first_misplaced.sequence, 1);
}

TEST(LinearFindings, AddUpEveryComparison) {
  LinearFindings all("grad_hidden");
  LinearFindings wrong("grad_hidden");
  wrong.l2.add(3, 1, 1, {0, 1, 2});
  wrong.failed.add(3, 1, 3, DType::f32);
  all.add(wrong);
  EXPECT_TRUE(all.elements.passed());
  EXPECT_FALSE(all.l2.passed());
  EXPECT_EQ(all.failed.count, 1);
}

TEST(LinearBias, IsNotJudgedUnderTheFloor) {
  for (const std::string values : {"normal", "denormal"}) {
    const LinearCase c = make_linear_case("lens=9+14 mask=all vocab=30 hidden=8 values=" + values);
    EmulatedOutputs got = emulate(c);
    EXPECT_TRUE(passes(judge_hidden(c, got.hidden))) << values;
    std::fill(got.hidden.begin(), got.hidden.end(), 0.0f);  // as by a flush to zero
    EXPECT_EQ(bias_of(judge_hidden(c, got.hidden)).passed(), values == "denormal") << values;
  }
}

}  // namespace
}  // namespace lossgrid
