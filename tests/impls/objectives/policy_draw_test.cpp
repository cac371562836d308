// SPDX-License-Identifier: Apache-2.0
// Distances of other policies from the current one: every branch with its share.
#include "impls/objectives/policy_draw.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../problem/drawn_inputs.h"

namespace lossgrid {
namespace {

constexpr ObjectiveNeeds kPolicies{.inputs = {true, true, true, true, true}, .rewards = true};

Problem with_policies(const std::string& text, const std::vector<double>& logprobs,
                      const PolicyEdges& edges = {}) {
  return drawn(text, logprobs, kPolicies, PolicyDraw(edges));
}

/// Every token with the same log-probability.
Problem with_policies(const std::string& text, double logprob, const PolicyEdges& edges = {}) {
  const auto tokens = static_cast<std::size_t>(problem_of(text).tokens());
  return with_policies(text, std::vector<double>(tokens, logprob), edges);
}

TEST(PolicyDraw, AdvantagesAndRewardsAreNormal) {
  std::string lens = "lens=2";
  for (int i = 1; i < 4000; ++i) lens += "+2";
  const Problem problem = with_policies(lens + " mask=all vocab=8", -3);
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

TEST(NearDrift, RatiosHaveEveryBranchWithItsShare) {
  const Problem problem = with_policies("lens=8001 mask=all vocab=8", -7);
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
  const Problem problem = with_policies(lens + " mask=all vocab=8", -7);
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
  const Problem problem = with_policies("lens=8001 mask=all vocab=8", -7);
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
  const Problem near = with_policies(text + "near", -150);
  const Problem far = with_policies(text + "far", -150);
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
  const Problem far = with_policies("lens=9001 mask=all vocab=8 drift=far", -4);
  const auto& reference = input(far, TokenInput::reference_policy_logprobs);
  const auto offset = of_targets(far, [&](std::size_t t) { return double{reference[t]} + 4; });
  EXPECT_NEAR(share(offset, -40, -25), 1.0 / 30, 0.006);
  EXPECT_GT(share(offset, 2.6, 4), 0);  // where it is still a log-probability
  EXPECT_EQ(share(offset, 4.0001, 100), 0);
}

TEST(FarPrevDrift, MakesRatiosOfE25AndMore) {
  const std::string text = "lens=9001 mask=all vocab=8 poison=none drift=";
  const Problem near = with_policies(text + "near", -4);
  const Problem far = with_policies(text + "far_prev", -4);
  const auto& prev = input(far, TokenInput::prev_logprobs);
  const auto& generation = input(far, TokenInput::generation_logprobs);
  const auto log_ratio = of_targets(far, [&](std::size_t t) { return -4 - double{prev[t]}; });
  const auto weight =
      of_targets(far, [&](std::size_t t) { return double{prev[t]} - generation[t]; });
  EXPECT_NEAR(share(log_ratio, 25, 40), 0.25, 0.02);
  EXPECT_NEAR(share(log_ratio, -4, 4), 0.75, 0.02);
  EXPECT_EQ(share(weight, -3, 3), 1);
  EXPECT_EQ(input(far, TokenInput::advantages), input(near, TokenInput::advantages));
  EXPECT_EQ(input(far, TokenInput::reference_policy_logprobs),
            input(near, TokenInput::reference_policy_logprobs));
}

TEST(FarPrevDrift, GoesAboveToWhereThatIsALogProbability) {
  const Problem far = with_policies("lens=9001 mask=all vocab=8 drift=far_prev", -150);
  const auto& prev = input(far, TokenInput::prev_logprobs);
  const auto log_ratio = of_targets(far, [&](std::size_t t) { return -150 - double{prev[t]}; });
  EXPECT_NEAR(share(log_ratio, 25, 40), 0.125, 0.015);
  EXPECT_NEAR(share(log_ratio, -40, -25), 0.125, 0.015);
}

TEST(EqualDrift, IsTheLogProbabilityAsFloat32) {
  std::vector<double> logprobs;
  for (int t = 0; t < 50; ++t) logprobs.push_back(-0.1 * t);
  const Problem problem = with_policies("lens=20+30 mask=all vocab=8 drift=equal", logprobs);
  for (const TokenInput which : {TokenInput::prev_logprobs, TokenInput::generation_logprobs,
                                 TokenInput::reference_policy_logprobs}) {
    for (std::size_t t = 1; t < 50; ++t) {
      if (t == 20) continue;
      EXPECT_EQ(input(problem, which)[t], static_cast<float>(logprobs[t - 1])) << t;
    }
  }
}

TEST(PolicyDraw, LogProbabilitiesAreReflectedAndNeverPositive) {
  for (const std::string drift : {"near", "far", "equal", "far_prev", "edge"}) {
    for (const double x : {0.0, 1e-18, -1e-7, -0.1, -0.4, -3.0, -1e30}) {
      SCOPED_TRACE(drift + ' ' + std::to_string(x));
      const Problem problem = with_policies("lens=500+501 mask=all vocab=8 drift=" + drift, x);
      for (const TokenInput which : {TokenInput::prev_logprobs, TokenInput::generation_logprobs,
                                     TokenInput::reference_policy_logprobs}) {
        const auto values =
            of_targets(problem, [&](std::size_t t) { return double{input(problem, which)[t]}; });
        EXPECT_EQ(share(values, -3e38, 0), 1);
        if (x > -1e-6 && drift != "equal" && drift != "edge") {
          EXPECT_LT(share(values, -1e-4, 0), 0.02);  // not clamped
        }
      }
    }
  }
  // Reflected: at 0 the distances of both sides lie below.
  const Problem problem = with_policies("lens=8001 mask=all vocab=8", 0);
  const auto& reference = input(problem, TokenInput::reference_policy_logprobs);
  const auto offset = of_targets(problem, [&](std::size_t t) { return double{reference[t]}; });
  EXPECT_NEAR(share(offset, -2.5, -1.5), 0.1, 0.015);
}

/// An edge of each kind: ratios of 0.8 and 1.2, weights of 2, KL at -0.5.
PolicyEdges some_edges() {
  PolicyEdges edges;
  edges.log_ratios.add(std::log(0.8));
  edges.log_ratios.add(std::log(1.2));
  edges.log_weights.add(std::log(2));
  edges.reference_offsets.add(-0.5);
  return edges;
}

TEST(EdgeDrift, IsTheNumberItselfWhereNoFloatIsNear) {
  const Problem problem =
      with_policies("lens=3001 mask=all vocab=8 drift=edge", -1e30, some_edges());
  for (const TokenInput which : {TokenInput::prev_logprobs, TokenInput::generation_logprobs,
                                 TokenInput::reference_policy_logprobs}) {
    const auto& numbers = input(problem, which);
    for (const double number :
         of_targets(problem, [&](std::size_t t) { return double{numbers[t]}; })) {
      EXPECT_EQ(number, double{-1e30f});
    }
  }
}

TEST(EdgeDrift, IsAtEveryEdgeOneFloatAndALittleFurther) {
  const Problem problem = with_policies("lens=3001 mask=all vocab=8 drift=edge", -3, some_edges());
  const auto& prev = input(problem, TokenInput::prev_logprobs);
  const auto& generation = input(problem, TokenInput::generation_logprobs);
  const auto& reference = input(problem, TokenInput::reference_policy_logprobs);
  // Shares of `values` at `edge`: exactly, one float32 beside it (2^-22 to 2^-21), 2^-10 beside it.
  const auto expect_edge = [](const std::vector<double>& values, double edge, double part) {
    SCOPED_TRACE(edge);
    const double nearest = edge - 1.2e-7;
    EXPECT_NEAR(share(values, nearest, edge + 1.2e-7), part / 5, 0.02);
    for (const double sign : {1.0, -1.0}) {
      const auto within = [&](double low, double high) {
        return sign > 0 ? share(values, edge + low, edge + high)
                        : share(values, edge - high, edge - low);
      };
      EXPECT_NEAR(within(1.2e-7, 7e-7), part / 5, 0.02);
      EXPECT_NEAR(within(0x1p-10 - 2e-7, 0x1p-10 + 2e-7), part / 5, 0.02);
    }
  };
  const auto log_ratio = of_targets(problem, [&](std::size_t t) { return -3 - double{prev[t]}; });
  expect_edge(log_ratio, std::log(0.8), 0.5);
  expect_edge(log_ratio, std::log(1.2), 0.5);
  expect_edge(of_targets(problem, [&](std::size_t t) { return double{prev[t]} - generation[t]; }),
              std::log(2), 1);
  expect_edge(of_targets(problem, [&](std::size_t t) { return double{reference[t]} + 3; }), -0.5,
              1);
}

TEST(EdgeDrift, HasOneEdgeForAUnitAndRewardsOfZero) {
  PolicyEdges edges = some_edges();
  edges.sequences_per_edge = 2;
  std::string lens = "lens=4";
  for (int i = 1; i < 200; ++i) lens += "+4";
  const Problem problem = with_policies(lens + " mask=all vocab=8 drift=edge", -3, edges);
  const auto& prev = input(problem, TokenInput::prev_logprobs);
  for (std::size_t t = 0; t < 800; ++t) {
    if (t % 4 == 0) continue;
    EXPECT_EQ(prev[t], prev[t / 8 * 8 + 1]) << t;
  }
  const std::vector<double> rewards(problem.rewards.begin(), problem.rewards.end());
  EXPECT_NEAR(share(rewards, 0, 0), 1.0 / 3, 0.08);
}

TEST(EdgeDrift, WithoutEdgesIsAtTheLogProbabilityItself) {
  const Problem problem = with_policies("lens=3001 mask=all vocab=8 drift=edge", -3);
  const auto& prev = input(problem, TokenInput::prev_logprobs);
  const auto log_ratio = of_targets(problem, [&](std::size_t t) { return -3 - double{prev[t]}; });
  EXPECT_NEAR(share(log_ratio, 0, 0), 0.2, 0.02);
  EXPECT_EQ(share(log_ratio, -0x1p-10, 0x1p-10), 1);
}

}  // namespace
}  // namespace lossgrid
