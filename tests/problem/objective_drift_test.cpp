// SPDX-License-Identifier: Apache-2.0
// Distances of other policies from the current one: every branch with its share.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "drawn_inputs.h"

namespace lossgrid {
namespace {

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
  EXPECT_GT(share(offset, 2.6, 4), 0);  // where it is still a log-probability
  EXPECT_EQ(share(offset, 4.0001, 100), 0);
}

TEST(FarPrevDrift, MakesRatiosOfE25AndMore) {
  const std::string text = "lens=9001 mask=all vocab=8 poison=none drift=";
  const Problem near = drawn(text + "near", -4);
  const Problem far = drawn(text + "far_prev", -4);
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
  const Problem far = drawn("lens=9001 mask=all vocab=8 drift=far_prev", -150);
  const auto& prev = input(far, TokenInput::prev_logprobs);
  const auto log_ratio = of_targets(far, [&](std::size_t t) { return -150 - double{prev[t]}; });
  EXPECT_NEAR(share(log_ratio, 25, 40), 0.125, 0.015);
  EXPECT_NEAR(share(log_ratio, -40, -25), 0.125, 0.015);
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
  for (const std::string drift : {"near", "far", "equal", "far_prev", "edge"}) {
    for (const double x : {0.0, 1e-18, -1e-7, -0.1, -0.4, -3.0, -1e30}) {
      SCOPED_TRACE(drift + ' ' + std::to_string(x));
      const Problem problem = drawn("lens=500+501 mask=all vocab=8 drift=" + drift, x);
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
  const Problem problem = drawn("lens=8001 mask=all vocab=8", 0);
  const auto& reference = input(problem, TokenInput::reference_policy_logprobs);
  const auto offset = of_targets(problem, [&](std::size_t t) { return double{reference[t]}; });
  EXPECT_NEAR(share(offset, -2.5, -1.5), 0.1, 0.015);
}

/// Needs with an edge of each kind: ratios of 0.8 and 1.2, weights of 2, KL at -0.5.
ObjectiveNeeds needs_with_edges() {
  ObjectiveNeeds needs = kEverything;
  needs.inputs[static_cast<std::size_t>(TokenInput::versions)] = false;
  needs.log_ratios.add(std::log(0.8));
  needs.log_ratios.add(std::log(1.2));
  needs.log_weights.add(std::log(2));
  needs.reference_offsets.add(-0.5);
  return needs;
}

TEST(EdgeDrift, IsAtEveryEdgeOneFloatAndALittleFurther) {
  const std::vector<double> logprobs(3001, -3);
  const Problem problem =
      drawn("lens=3001 mask=all vocab=8 drift=edge", logprobs, needs_with_edges());
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
  ObjectiveNeeds needs = needs_with_edges();
  needs.edges_by_unit = true;
  needs.sequences_per_unit = 2;
  std::string lens = "lens=4";
  for (int i = 1; i < 200; ++i) lens += "+4";
  const std::vector<double> logprobs(800, -3);
  const Problem problem = drawn(lens + " mask=all vocab=8 drift=edge", logprobs, needs);
  const auto& prev = input(problem, TokenInput::prev_logprobs);
  for (std::size_t t = 0; t < 800; ++t) {
    if (t % 4 == 0) continue;
    EXPECT_EQ(prev[t], prev[t / 8 * 8 + 1]) << t;
  }
  const std::vector<double> rewards(problem.rewards.begin(), problem.rewards.end());
  EXPECT_NEAR(share(rewards, 0, 0), 1.0 / 3, 0.08);
}

TEST(EdgeDrift, WithoutEdgesIsAtTheLogProbabilityItself) {
  const Problem problem = drawn("lens=3001 mask=all vocab=8 drift=edge", -3);
  const auto& prev = input(problem, TokenInput::prev_logprobs);
  const auto log_ratio = of_targets(problem, [&](std::size_t t) { return -3 - double{prev[t]}; });
  EXPECT_NEAR(share(log_ratio, 0, 0), 0.2, 0.02);
  EXPECT_EQ(share(log_ratio, -0x1p-10, 0x1p-10), 1);
}

}  // namespace
}  // namespace lossgrid
