// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/objective_inputs.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "drawn_inputs.h"
#include "expect_error.h"
#include "harness/problem/batch/partition.h"

namespace lossgrid {
namespace {

TEST(ObjectiveInputs, SlotsThatNothingTrainsOnArePoisoned) {
  const std::string text = "lens=5+4+3 mask=11011+0111+111 sample_mask=110 vocab=8 poison=";
  const std::vector<std::uint8_t> trained{0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0};
  // The log-probabilities of untrained tokens may not matter.
  std::vector<double> logprobs(12, -3);
  for (std::size_t t = 0; t < 11; ++t) {
    if (trained[t + 1] == 0) logprobs[t] = std::nan("");
  }
  const Problem nan = drawn(text + "nan", logprobs);
  const Problem inf = drawn(text + "inf", logprobs);
  const Problem none = drawn(text + "none", logprobs);
  for (int k = 0; k < kTokenInputs; ++k) {
    for (std::size_t t = 0; t < 12; ++t) {
      SCOPED_TRACE(std::to_string(k) + ' ' + std::to_string(t));
      EXPECT_EQ(std::isnan(nan.inputs[k][t]), trained[t] == 0);
      EXPECT_EQ(inf.inputs[k][t] == HUGE_VALF, trained[t] == 0);
      EXPECT_TRUE(std::isfinite(none.inputs[k][t]));
      if (k > 0 && static_cast<TokenInput>(k) != TokenInput::versions) {
        EXPECT_LE(none.inputs[k][t], 0);
      }
      if (trained[t] != 0) {
        EXPECT_EQ(nan.inputs[k][t], none.inputs[k][t]);
      }
    }
  }
  EXPECT_TRUE(std::isnan(nan.rewards[2]));
  EXPECT_EQ(inf.rewards[2], HUGE_VALF);
  EXPECT_TRUE(std::isfinite(none.rewards[2]));
  EXPECT_EQ(nan.rewards[0], none.rewards[0]);
}

TEST(ObjectiveInputs, AreThoseThatAreNeededAndTheSameWhateverElseIs) {
  const std::string text = "lens=9+14 mask=all vocab=8 poison=none drift=far";
  const std::vector<double> logprobs(23, -5);
  const Problem all = drawn(text, logprobs);
  for (int only = 0; only < kTokenInputs; ++only) {
    ObjectiveNeeds needs;
    needs.inputs[only] = true;
    const Problem problem = drawn(text + " dtype=bf16 pad_multiple=8", logprobs, needs);
    for (int k = 0; k < kTokenInputs; ++k) {
      EXPECT_EQ(problem.inputs[k], k == only ? all.inputs[k] : std::vector<float>{}) << only << k;
    }
    EXPECT_TRUE(problem.rewards.empty());
    EXPECT_EQ(problem.denominators.positive_tokens, 0);
  }
  EXPECT_NE(drawn(text + " seed=43", logprobs).inputs, all.inputs);
}

TEST(ObjectiveInputs, DependOnTheLogProbabilityOfTheirTokenAlone) {
  const std::string text = "lens=9+14 vocab=8 poison=none mask=";
  std::vector<double> logprobs(23, -5);
  const Problem before = drawn(text + "all", logprobs);
  logprobs[11] = -6;
  const Problem after = drawn(text + "all", logprobs);
  const Problem masked = drawn(text + "000000001+00000000000001", logprobs);
  for (int k = 0; k < kTokenInputs; ++k) {
    for (std::size_t t = 0; t < 23; ++t) {
      const bool is_by_logprob = k > 0 && static_cast<TokenInput>(k) != TokenInput::versions;
      EXPECT_EQ(before.inputs[k][t] != after.inputs[k][t], t == 12 && is_by_logprob)
          << k << ' ' << t;
    }
    EXPECT_EQ(masked.inputs[k][8], after.inputs[k][8]);
    EXPECT_EQ(masked.inputs[k][22], after.inputs[k][22]);
  }
}

TEST(ObjectiveInputs, PositiveTokensAreCountedExactly) {
  const std::string text = "lens=5+4+1+3+6+0+7 mask=all sample_mask=1111101 vocab=8";
  bool some = false;
  for (int seed = 0; seed < 20; ++seed) {
    const Problem problem = drawn(text + " seed=" + std::to_string(seed), -3);
    const std::vector<std::int64_t> targets{4, 3, 0, 2, 5, 0, 6};
    std::int64_t wanted = 0;
    for (std::size_t i = 0; i < 7; ++i) wanted += problem.rewards[i] > 0 ? targets[i] : 0;
    EXPECT_EQ(problem.denominators.positive_tokens, wanted);
    EXPECT_EQ(problem.denominators.valid_tokens, 20);
    some = some || (wanted > 0 && wanted < 20);
  }
  EXPECT_TRUE(some);
}

TEST(ObjectiveInputs, SequencesAreCountedWhereTheyAreNeeded) {
  // One sequence is masked, one has no target but its first token, one has no token.
  Problem problem = problem_of("lens=5+4+2+3+0 mask=11111+1111+10+111+ sample_mask=10111 vocab=8");
  using Counts = std::pair<std::int64_t, std::int64_t>;
  ObjectiveNeeds needs;
  const auto counted = [&] {
    require_objective_inputs(problem, needs);
    return Counts(problem.denominators.trained_sequences, problem.denominators.all_sequences);
  };
  EXPECT_EQ(counted(), Counts(0, 0));
  needs.sequence_counts = true;
  EXPECT_EQ(counted(), Counts(2, 5));
  problem.spec.global_valid_seqs = 9;
  EXPECT_EQ(counted(), Counts(9, 9));
}

TEST(ObjectiveInputs, TokensWithoutAGenerationLogProbabilityAreDropped) {
  std::string lens = "lens=3";
  for (int i = 1; i < 2000; ++i) lens += "+3";
  Problem problem = problem_of(lens + " mask=all vocab=8");
  ObjectiveNeeds needs = kEverything;
  needs.generation_may_lack = true;
  needs.sequence_counts = true;
  const PlainDraw lacking(true);
  draw_objective_inputs(problem, needs, &lacking, std::vector<double>(6000, -3.0));
  EXPECT_EQ(problem.denominators.valid_tokens, 4000);
  needs.drops_lacking = true;
  draw_objective_inputs(problem, needs, &lacking, std::vector<double>(6000, -3.0));
  const auto& generation = input(problem, TokenInput::generation_logprobs);
  std::int64_t kept = 0;
  std::int64_t sequences = 0;
  for (std::size_t first = 0; first < 6000; first += 3) {
    std::int64_t of_sequence = 0;
    for (std::size_t t = first + 1; t < first + 3; ++t) {
      EXPECT_EQ(problem.token_mask[t] != 0, std::isfinite(generation[t])) << t;
      EXPECT_TRUE(std::isfinite(input(problem, TokenInput::advantages)[t]));
      of_sequence += problem.token_mask[t];
    }
    kept += of_sequence;
    sequences += of_sequence > 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 3500, 80);
  EXPECT_EQ(problem.denominators.valid_tokens, kept);
  EXPECT_EQ(problem.denominators.trained_sequences, sequences);
  EXPECT_LT(sequences, 2000);
  require_objective_inputs(problem, needs);
  EXPECT_EQ(problem.denominators.valid_tokens, kept);
}

TEST(ObjectiveInputs, GenerationMayLackWhereTheObjectiveTakesThat) {
  ObjectiveNeeds needs = kEverything;
  needs.generation_may_lack = true;
  Problem problem =
      drawn("lens=101 mask=all vocab=8", std::vector<double>(101, -3), needs, PlainDraw(true));
  require_objective_inputs(problem, needs);
  EXPECT_THROW(require_objective_inputs(problem, kEverything), Error);
}

TEST(RequireObjectiveInputs, RefusesVersionsBeyondFloat32) {
  Problem problem = drawn("lens=3 mask=all vocab=8", -3);
  problem.source = FromBundle{"batch.safetensors"};
  problem.inputs[static_cast<std::size_t>(TokenInput::versions)][2] = 33554432;
  expect_bad_input([&] { require_objective_inputs(problem, kEverything); },
                   {"tensor versions", "sequence 0, token 2", "2^24"});
}

TEST(ObjectiveInputs, GroupsAreCountedWhereTheyAreNeeded) {
  // Groups of 4 and 0, of none, and of one sequence, the last one, with 2.
  Problem problem =
      problem_of("lens=5+4+2+3+3 mask=11111+1111+10+111+111 sample_mask=10101 vocab=8");
  ObjectiveNeeds needs;
  require_objective_inputs(problem, needs);
  EXPECT_TRUE(problem.group_tokens.empty());
  EXPECT_EQ(problem.denominators.all_groups, 0);
  needs.group_size = 2;
  require_objective_inputs(problem, needs);
  EXPECT_EQ(problem.group_tokens, (std::vector<std::int64_t>{4, 4, 0, 0, 2}));
  EXPECT_EQ(problem.denominators.all_groups, 3);
  EXPECT_EQ(problem.denominators.trained_groups, 2);
  // Sequences of a part keep the counts of their groups.
  MicrobatchPlan plan;
  plan.sequences = {1, 4};
  const Problem part = take_part(problem, plan, 1, 2);
  EXPECT_EQ(part.group_tokens, (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(part.groups, (std::vector<std::int64_t>{0, 2}));
  // The whole batch is one pack until it is cut.
  needs.group_size = 0;
  needs.packs_are_groups = true;
  require_objective_inputs(problem, needs);
  EXPECT_EQ(problem.group_tokens, (std::vector<std::int64_t>{6, 6, 6, 6, 6}));
  EXPECT_EQ(problem.denominators.all_groups, 1);
}

TEST(ObjectiveInputs, NeedALogProbabilityForEveryTarget) {
  Problem problem = problem_of("lens=3 mask=all vocab=8");
  const PlainDraw draw;
  const std::vector<double> two(2, -1.0);
  EXPECT_THROW(draw_objective_inputs(problem, kEverything, &draw, two), Error);
  expect_bad_input(
      [&] {
        const std::vector<double> infinite{-1, -HUGE_VAL, -1};
        draw_objective_inputs(problem, kEverything, &draw, infinite);
      },
      {"lens=3", "token 2", "-inf"});
}

TEST(ObjectiveInputs, NeedADrawWhereAnyAreNeeded) {
  Problem problem = problem_of("lens=3 mask=all vocab=8");
  const std::vector<double> logprobs(3, -1.0);
  EXPECT_NO_THROW(draw_objective_inputs(problem, {}, nullptr, logprobs));
  EXPECT_THROW(draw_objective_inputs(problem, {.rewards = true}, nullptr, logprobs), Error);
  EXPECT_THROW(draw_objective_inputs(problem, kEverything, nullptr, logprobs), Error);
}

TEST(ObjectiveInputs, AreEmptyForABatchWithoutTokens) {
  for (const std::string lens : {"lens=0+0", "seqs=0"}) {
    Problem problem = drawn(lens + " vocab=8", std::vector<double>{});
    EXPECT_NO_THROW(require_objective_inputs(problem, kEverything));
    EXPECT_TRUE(problem.inputs[0].empty());
    EXPECT_EQ(problem.denominators.positive_tokens, 0);
  }
}

TEST(RequireObjectiveInputs, NamesWhatIsMissing) {
  for (int k = 0; k < kTokenInputs; ++k) {
    Problem problem = drawn("lens=3+4 mask=all vocab=8", -3);
    problem.source = FromBundle{"batch.safetensors"};
    EXPECT_NO_THROW(require_objective_inputs(problem, kEverything));
    problem.inputs[k].clear();
    expect_bad_input(
        [&] { require_objective_inputs(problem, kEverything); },
        {"batch.safetensors: tensor \"" + std::string(name(static_cast<TokenInput>(k))) +
         "\" is missing; the objective needs it"});
  }
  Problem problem = drawn("lens=3+4 mask=all vocab=8", -3);
  problem.rewards.clear();
  expect_bad_input([&] { require_objective_inputs(problem, kEverything); },
                   {"tensor \"rewards\" is missing"});
}

TEST(RequireObjectiveInputs, DropsInputsThatAreNotNeededAndCountsTokens) {
  Problem problem = problem_of("lens=3+4+2 mask=all sample_mask=110 vocab=8");
  for (auto& values : problem.inputs) values.assign(9, 1.0f);
  problem.rewards = {0.5f, 0.0f, 1.0f};
  ObjectiveNeeds needs;
  needs.inputs[static_cast<std::size_t>(TokenInput::prev_logprobs)] = true;
  needs.rewards = true;
  Problem kept = problem;
  require_objective_inputs(kept, needs);
  EXPECT_EQ(kept.inputs[0], std::vector<float>{});
  EXPECT_EQ(kept.inputs[1], problem.inputs[1]);
  EXPECT_EQ(kept.inputs[3], std::vector<float>{});
  EXPECT_EQ(kept.denominators.positive_tokens, 2);  // not a reward of 0, not a masked sample
  needs.rewards = false;
  require_objective_inputs(kept, needs);
  EXPECT_TRUE(kept.rewards.empty());
  EXPECT_EQ(kept.denominators.positive_tokens, 0);
}

}  // namespace
}  // namespace lossgrid
