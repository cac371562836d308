// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/objective_inputs.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lossgrid {
namespace {

constexpr ObjectiveNeeds kEverything{{true, true, true, true}, true, 1, false};

Problem make(const std::string& text) {
  return make_problem(parse_case(text));
}

Problem drawn(const std::string& text, const std::vector<double>& logprobs,
              const ObjectiveNeeds& needs = kEverything) {
  Problem problem = make(text);
  draw_objective_inputs(problem, needs, logprobs);
  return problem;
}

/// Every token with the same log-probability.
Problem drawn(const std::string& text, double logprob) {
  return drawn(text, std::vector<double>(static_cast<std::size_t>(make(text).tokens()), logprob));
}

const std::vector<float>& input(const Problem& problem, TokenInput which) {
  return problem.inputs[static_cast<std::size_t>(which)];
}

/// f(token) of all tokens but the first of each sequence.
template <typename F>
std::vector<double> of_targets(const Problem& problem, F&& f) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < problem.sequences(); ++i) {
    for (std::int64_t t = problem.cu_seqlens[i] + 1; t < problem.cu_seqlens[i + 1]; ++t) {
      out.push_back(f(static_cast<std::size_t>(t)));
    }
  }
  return out;
}

double share(const std::vector<double>& values, double low, double high) {
  return static_cast<double>(std::count_if(values.begin(), values.end(),
                                           [=](double x) { return x >= low && x <= high; })) /
         static_cast<double>(values.size());
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(NearDrift, RatiosHaveEveryBranchWithItsShare) {
  const Problem problem = drawn("lens=8001 mask=all vocab=8", -7);
  const auto& prev = input(problem, TokenInput::prev_logprobs);
  std::vector<double> d = of_targets(problem, [&](std::size_t t) { return -7 - prev[t]; });
  // One sequence, one drift: known from the mean, as the mixture has 0.05 * 0.425.
  const double drift = mean(d) - 0.05 * 0.425;
  for (double& value : d) value -= drift;
  EXPECT_NEAR(share(d, -0.21, 0.21), 0.35, 0.02);
  EXPECT_NEAR(share(d, 0.21, 0.63), 0.30, 0.02);
  EXPECT_NEAR(share(d, -0.63, -0.21), 0.25, 0.02);
  EXPECT_NEAR(share(d, 1.17, 1.63), 0.05, 0.01);
  EXPECT_NEAR(share(d, -1.63, -1.17), 0.05, 0.01);
  EXPECT_EQ(share(d, 0.63, 1.17) + share(d, -1.17, -0.63), 0);
  EXPECT_EQ(share(d, -1.63, 1.63), 1);
}

TEST(NearDrift, SequencesShareADrift) {
  std::string lens = "lens=41";
  for (int i = 1; i < 500; ++i) lens += "+41";
  const Problem problem = drawn(lens + " mask=all vocab=8", -7);
  const auto& prev = input(problem, TokenInput::prev_logprobs);
  std::vector<double> means;
  for (std::int64_t i = 0; i < 500; ++i) {
    double sum = 0;
    for (std::int64_t t = 41 * i + 1; t < 41 * (i + 1); ++t) sum += -7 - prev[t];
    means.push_back(sum / 40);
  }
  // Variance 0.15^2 of the drift and 0.303 / 40 of the mean of a mixture.
  EXPECT_NEAR(deviation(means), std::sqrt(0.0225 + 0.303 / 40), 0.015);
}

TEST(NearDrift, WeightsAndReferencesHaveTheirShares) {
  const Problem problem = drawn("lens=8001 mask=all vocab=8", -7);
  const auto& prev = input(problem, TokenInput::prev_logprobs);
  const auto& generation = input(problem, TokenInput::generation_logprobs);
  const auto& reference = input(problem, TokenInput::reference_policy_logprobs);
  const auto weight =
      of_targets(problem, [&](std::size_t t) { return double{prev[t]} - generation[t]; });
  EXPECT_NEAR(share(weight, 0.3, 1), 0.1, 0.015);
  EXPECT_NEAR(share(weight, -1, -0.3), 0.1, 0.015);
  EXPECT_NEAR(share(weight, -0.1, 0.1), 0.8 * 0.683, 0.02);
  EXPECT_EQ(share(weight, -1.0001, 1.0001), 1);
  const auto offset = of_targets(problem, [&](std::size_t t) { return double{reference[t]} + 7; });
  EXPECT_NEAR(share(offset, 1.5, 2.5), 0.05, 0.01);
  EXPECT_NEAR(share(offset, -2.5, -1.5), 0.05, 0.01);
  EXPECT_NEAR(share(offset, -0.5, 0.5), 0.9 * 0.683, 0.02);
}

TEST(FarDrift, MovesATenthBeyondClampsAndFloat32) {
  const std::string text = "lens=9001 mask=all vocab=8 poison=none drift=";
  // -150: high enough above for every branch on both sides.
  const Problem near = drawn(text + "near", -150);
  const Problem far = drawn(text + "far", -150);
  const auto& prev = input(far, TokenInput::prev_logprobs);
  const auto& generation = input(far, TokenInput::generation_logprobs);
  const auto& reference = input(far, TokenInput::reference_policy_logprobs);
  EXPECT_EQ(prev, input(near, TokenInput::prev_logprobs));
  EXPECT_EQ(input(far, TokenInput::advantages), input(near, TokenInput::advantages));
  const auto offset = of_targets(far, [&](std::size_t t) { return double{reference[t]} + 150; });
  const auto weight =
      of_targets(far, [&](std::size_t t) { return double{prev[t]} - generation[t]; });
  EXPECT_NEAR(share(offset, 25, 40), 1.0 / 60, 0.005);
  EXPECT_NEAR(share(offset, -40, -25), 1.0 / 60, 0.005);
  EXPECT_NEAR(share(offset, 2.6, 5), 1.0 / 60, 0.005);
  EXPECT_NEAR(share(offset, -5, -2.6), 1.0 / 60, 0.005);
  EXPECT_NEAR(share(weight, 99.9, 110.1), 1.0 / 60, 0.005);
  EXPECT_NEAR(share(weight, -110.1, -99.9), 1.0 / 60, 0.005);
  int changed = 0;
  for (std::size_t t = 1; t < 9001; ++t) {
    const bool other_reference =
        reference[t] != input(near, TokenInput::reference_policy_logprobs)[t];
    const bool other_generation = generation[t] != input(near, TokenInput::generation_logprobs)[t];
    EXPECT_FALSE(other_reference && other_generation);
    changed += other_reference || other_generation ? 1 : 0;
    const float importance = std::exp(prev[t] - generation[t]);
    if (other_generation) {
      EXPECT_TRUE(std::isinf(importance) || importance < 1e-40f) << importance;
    }
  }
  EXPECT_NEAR(changed, 900, 90);
}

TEST(FarDrift, GoesBelowWhereAboveIsNoLogProbability) {
  const Problem far = drawn("lens=9001 mask=all vocab=8 drift=far", -4);
  const auto& reference = input(far, TokenInput::reference_policy_logprobs);
  const auto offset = of_targets(far, [&](std::size_t t) { return double{reference[t]} + 4; });
  EXPECT_NEAR(share(offset, -40, -25), 1.0 / 30, 0.006);
  EXPECT_GT(share(offset, 2.6, 4), 0);  // where it still is one
  EXPECT_EQ(share(offset, 4.0001, 100), 0);
}

TEST(EqualDrift, IsTheLogProbabilityAsFloat32) {
  std::vector<double> logprobs;
  for (int t = 0; t < 50; ++t) logprobs.push_back(-0.1 * t);
  const Problem problem = drawn("lens=20+30 mask=all vocab=8 drift=equal", logprobs);
  for (const TokenInput which : {TokenInput::prev_logprobs, TokenInput::generation_logprobs,
                                 TokenInput::reference_policy_logprobs}) {
    for (std::size_t t = 1; t < 50; ++t) {
      if (t == 20) continue;
      EXPECT_EQ(input(problem, which)[t], static_cast<float>(logprobs[t - 1])) << t;
    }
  }
}

TEST(ObjectiveInputs, AreReflectedAndNeverPositive) {
  for (const std::string drift : {"near", "far", "equal"}) {
    for (const double x : {0.0, 1e-18, -1e-7, -0.1, -0.4, -3.0, -1e30}) {
      SCOPED_TRACE(drift + ' ' + std::to_string(x));
      const Problem problem = drawn("lens=500+501 mask=all vocab=8 drift=" + drift, x);
      for (const TokenInput which : {TokenInput::prev_logprobs, TokenInput::generation_logprobs,
                                     TokenInput::reference_policy_logprobs}) {
        const auto values =
            of_targets(problem, [&](std::size_t t) { return double{input(problem, which)[t]}; });
        EXPECT_EQ(share(values, -3e38, 0), 1);
        if (x > -1e-6 && drift != "equal") {
          EXPECT_LT(share(values, -1e-4, 0), 0.02);  // not clamped
        }
      }
    }
  }
  // Reflected: at 0 the distances of both sides lie below.
  const Problem problem = drawn("lens=8001 mask=all vocab=8", 0);
  const auto& reference = input(problem, TokenInput::reference_policy_logprobs);
  const auto offset = of_targets(problem, [&](std::size_t t) { return double{reference[t]}; });
  EXPECT_NEAR(share(offset, -2.5, -1.5), 0.1, 0.015);
}

TEST(ObjectiveInputs, AdvantagesAndRewardsAreNormal) {
  std::string lens = "lens=2";
  for (int i = 1; i < 4000; ++i) lens += "+2";
  const Problem problem = drawn(lens + " mask=all vocab=8", -3);
  const auto& all = input(problem, TokenInput::advantages);
  std::vector<double> advantages =
      of_targets(problem, [&](std::size_t t) { return double{all[t]}; });
  EXPECT_NEAR(share(advantages, 0, 0), 0.1, 0.02);
  advantages.erase(std::remove(advantages.begin(), advantages.end(), 0.0), advantages.end());
  EXPECT_NEAR(mean(advantages), 0, 0.07);
  EXPECT_NEAR(deviation(advantages), 1, 0.04);
  const std::vector<double> rewards(problem.rewards.begin(), problem.rewards.end());
  EXPECT_EQ(rewards.size(), 4000u);
  EXPECT_NEAR(mean(rewards), 0, 0.07);
  EXPECT_NEAR(deviation(rewards), 1, 0.04);
}

TEST(ObjectiveInputs, SlotsThatNothingTrainsOnArePoisoned) {
  const std::string text = "lens=5+4+3 mask=11011+0111+111 sample_mask=110 vocab=8 poison=";
  const std::vector<std::uint8_t> trained{0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0};
  // What the log-probabilities of untrained tokens are may not matter.
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
      if (k > 0) {
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

TEST(ObjectiveInputs, OfATokenDependOnItsOwnLogProbabilityOnly) {
  const std::string text = "lens=9+14 vocab=8 poison=none mask=";
  std::vector<double> logprobs(23, -5);
  const Problem before = drawn(text + "all", logprobs);
  logprobs[11] = -6;
  const Problem after = drawn(text + "all", logprobs);
  const Problem masked = drawn(text + "000000001+00000000000001", logprobs);
  for (int k = 0; k < kTokenInputs; ++k) {
    for (std::size_t t = 0; t < 23; ++t) {
      EXPECT_EQ(before.inputs[k][t] != after.inputs[k][t], t == 12 && k > 0) << k << ' ' << t;
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

TEST(ObjectiveInputs, NeedALogProbabilityForEveryTarget) {
  Problem problem = make("lens=3 mask=all vocab=8");
  EXPECT_THROW(draw_objective_inputs(problem, kEverything, std::vector<double>(2, -1.0)), Error);
  expect_bad_input(
      [&] {
        draw_objective_inputs(problem, kEverything, std::vector<double>{-1, -HUGE_VAL, -1});
      },
      {"lens=3", "token 2", "-inf"});
}

TEST(ObjectiveInputs, OfABatchWithoutTokensAreEmpty) {
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
    problem.source = "batch.safetensors";
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

TEST(RequireObjectiveInputs, DropsTheOthersAndCounts) {
  Problem problem = make("lens=3+4+2 mask=all sample_mask=110 vocab=8");
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
