// SPDX-License-Identifier: Apache-2.0
// Facts of a failed trial: the parts of every gradient with their places, and the checks that
// failed, each for its own gradient.
#include "harness/runner/verdict/failure_facts.h"

#include <gtest/gtest.h>

#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"

namespace lossgrid {
namespace {

TrialSetup facts_setup(const std::string& case_text, const std::string& implementation,
                       const Grid& grid) {
  return make_trial(prepare(make_problem(parse_case(case_text))), implementation, grid);
}

TrialRecord record_with_failed(const std::string& check) {
  TrialRecord record;
  for (const char* name : {"loss", "logprobs", "grad_logits", "grad_logits_bias", "grad_hidden",
                           "grad_hidden_l2", "grad_weight", "grad_weight_bias"}) {
    CheckRecord one;
    one.name = name;
    one.passed = name != check;
    record.checks.push_back(one);
  }
  return record;
}

TEST(FailureFacts, AFailedCheckIsThatOfItsGradient) {
  const TrialSetup setup = facts_setup("lens=8 vocab=24", "cp_local", {1, 1});
  std::vector<RankResult> ranks(1);
  ranks[0].packs.emplace_back().grad_logits = GradientFindings();
  struct Expected {
    const char* check;
    bool failed, bias_failed;
  };
  for (const Expected& one :
       {Expected{"grad_logits", true, false}, Expected{"grad_logits_bias", true, true},
        Expected{"logprobs", false, false}, Expected{"grad_weight_bias", false, false}}) {
    const FailureFacts facts = failure_facts(setup, ranks, record_with_failed(one.check));
    ASSERT_EQ(facts.gradients.size(), 1u);
    EXPECT_EQ(facts.gradients[0].failed, one.failed) << one.check;
    EXPECT_EQ(facts.gradients[0].bias_failed, one.bias_failed) << one.check;
    EXPECT_FALSE(facts.loss);
  }
}

TEST(FailureFacts, PartsHaveTheirPlaces) {
  const TrialSetup setup =
      facts_setup("lens=8+8 vocab=24 hidden=6 microbatches=2", "linear_materialized", {2, 1});
  std::vector<RankResult> ranks(2);
  for (RankResult& rank : ranks) {
    rank.packs.resize(2);
    for (PackFindings& pack : rank.packs) pack.grad_hidden = LinearFindings("grad_hidden");
    rank.grad_weight = LinearFindings("grad_weight");
  }
  ranks[1].packs[1].grad_hidden->not_written = 3;
  const FailureFacts facts = failure_facts(setup, ranks, record_with_failed("grad_weight"));
  ASSERT_EQ(facts.gradients.size(), 2u);
  const GradientFacts& hidden = facts.gradients[0];
  EXPECT_EQ(hidden.name, "grad_hidden");
  EXPECT_FALSE(hidden.failed);
  EXPECT_TRUE(hidden.not_written);
  ASSERT_EQ(hidden.parts.size(), 4u);
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(hidden.parts[k].place.tp, static_cast<int>(k / 2));
    EXPECT_EQ(hidden.parts[k].place.microbatch, static_cast<int>(k % 2));
  }
  const GradientFacts& weight = facts.gradients[1];
  EXPECT_TRUE(weight.failed);
  EXPECT_FALSE(weight.not_written);
  ASSERT_EQ(weight.parts.size(), 2u);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(weight.parts[r].place.tp, static_cast<int>(r));
    EXPECT_EQ(weight.parts[r].place.microbatch, 0);
  }
  ASSERT_EQ(facts.logprobs.size(), 4u);
  EXPECT_EQ(facts.logprobs[3].place.tp, 1);
  EXPECT_EQ(facts.logprobs[3].place.microbatch, 1);
}

TEST(FailureFacts, WithoutSequenceParallelismCopiesOfHiddenStatesCountOnce) {
  const auto terms_of = [](const Grid& grid) {
    const TrialSetup setup = facts_setup("lens=8 vocab=24 hidden=6", "linear_materialized", grid);
    std::vector<RankResult> ranks(2);
    for (RankResult& rank : ranks) {
      LinearFindings found("grad_hidden");
      found.bias.add_element(DType::f32, 1, 1, 1, 0, 0);
      rank.packs.emplace_back().grad_hidden = found;
    }
    return failure_facts(setup, ranks, record_with_failed("loss"))
        .gradients.at(0)
        .sums.truth_squared;
  };
  EXPECT_EQ(terms_of({2, 1}), 1);
  EXPECT_EQ(terms_of({.tp = 2, .cp = 1, .sp = true}), 2);
}

TEST(FailureFacts, SizesAreThoseOfTheTrial) {
  const TrialSetup setup =
      facts_setup("lens=8+5+3+4 vocab=24 hidden=6 mask=all microbatches=2 temperature=2",
                  "linear_materialized", {.tp = 2, .cp = 2, .dp = 2});
  TrialRecord record = record_with_failed("loss");
  record.valid_tokens = 16;
  record.checks[0].worst = WorstElement{};
  record.checks[0].worst->got = 3;
  record.checks[0].worst->want = 1.5;
  const FailureFacts facts = failure_facts(setup, {}, record);
  EXPECT_EQ(facts.sizes.scale.dp, 2);
  EXPECT_EQ(facts.sizes.scale.cp, 2);
  EXPECT_EQ(facts.sizes.scale.n_mb, 2);
  EXPECT_EQ(facts.sizes.tp, 2);
  EXPECT_EQ(facts.sizes.valid_tokens, 16);
  EXPECT_EQ(facts.sizes.sequences, 4);
  EXPECT_EQ(facts.sizes.temperature, 2);
  ASSERT_TRUE(facts.loss);
  EXPECT_EQ(facts.loss->got, 3);
  EXPECT_EQ(facts.loss->want, 1.5);
}

}  // namespace
}  // namespace lossgrid
