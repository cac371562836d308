// SPDX-License-Identifier: Apache-2.0
// The objective of on-policy distillation by sampled tokens: by hand, against its truth and against
// finite differences.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "impls/objectives/policy_draw.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

constexpr auto kOpdTeacher = static_cast<std::size_t>(TokenInput::teacher_logprobs);

std::unique_ptr<Objective> on_policy_distill(const ObjectiveOptions& options = {}) {
  return find_objective("on_policy_distill").make(options);
}

std::vector<ObjectiveOptions> sampled_modes() {
  std::vector<ObjectiveOptions> modes;
  for (const char* mode : {"\"abs\"", "\"k2\"", "\"k3\"", "\"score\""}) {
    for (const char* bound : {"10", "0.1", "null"}) {
      modes.push_back({{"loss_mode", mode}, {"loss_max_clamp", bound}});
    }
  }
  return modes;
}

/// Four tokens of which three are targets, of a batch of 8: d = 0.5, -1 and 3.
ObjectiveBatch sampled_batch() {
  ObjectiveBatchShape shape;
  shape.lengths = {4};
  ObjectiveBatch data = make_objective_batch(shape);
  data.batch.token_mask = {1, 1, 1, 1};
  data.batch.denominators = {8, 1, 0};
  data.logprobs = {-1, -2, -3, kPoison};
  data.batch.inputs[kOpdTeacher] = {kPoison, -1.5f, -1, -6};
  return data;
}

TEST(OnPolicyDistill, WorkedOutByHand) {
  const auto expect = [](const char* mode, const char* bound, double loss,
                         const std::vector<double>& slopes) {
    SCOPED_TRACE(fmt::format("{} {}", mode, bound));
    const ObjectiveRun run = run_objective(
        *on_policy_distill({{"loss_mode", mode}, {"loss_max_clamp", bound}}), sampled_batch());
    EXPECT_NEAR(run.loss, loss / 8, 1e-14);
    ASSERT_EQ(run.gradient.size(), 4u);
    for (std::size_t t = 0; t < 3; ++t) EXPECT_FLOAT_EQ(run.gradient[t], slopes[t] / 8);
    EXPECT_EQ(run.gradient[3], 0);
    EXPECT_EQ(run.metrics.at("num_unmasked_tokens"), (Metric{Reduction::count, 3, 1}));
    EXPECT_EQ(run.metrics.at("num_valid_samples"), (Metric{Reduction::count, 1, 1}));
    EXPECT_EQ(run.metrics.at("loss"), (Metric{Reduction::sum, run.loss, 1}));
  };
  expect("\"abs\"", "10", 4.5, {1, -1, 1});
  expect("\"abs\"", "2", 3.5, {1, -1, 0});
  expect("\"abs\"", "3", 4.5, {1, -1, 1});  // a bound that is met passes the gradient
  expect("\"k2\"", "null", 0.125 + 0.5 + 4.5, {0.5, -1, 3});
  expect("\"k2\"", "4", 0.125 + 0.5 + 4, {0.5, -1, 0});
  const double k3[] = {std::exp(-0.5) - 0.5, std::exp(1.0) - 2, std::exp(-3.0) + 2};
  expect("\"k3\"", "10", k3[0] + k3[1] + k3[2],
         {1 - std::exp(-0.5), 1 - std::exp(1.0), 1 - std::exp(-3.0)});
  expect("\"score\"", "null", -0.5 + 2 - 9, {0.5, -1, 3});
  expect("\"score\"", "0.75", -0.5 + 1.5 - 2.25, {0.5, -0.75, 0.75});
}

TEST(OnPolicyDistill, StepsMatchTheTruth) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ObjectiveBatchShape shape;
    shape.seed = seed;
    shape.drift = seed % 3 == 0 ? Drift::equal : seed % 2 == 0 ? Drift::far : Drift::near;
    shape.part_of_more = seed % 2 == 0;
    if (seed % 3 == 1) shape.sample_mask = {1, 1, 0, 1, 1, 0};
    const ObjectiveBatch data = make_objective_batch(shape);
    for (const ObjectiveOptions& options : sampled_modes()) {
      SCOPED_TRACE(fmt::format("{} {} seed {}", options.at("loss_mode"),
                               options.at("loss_max_clamp"), seed));
      expect_steps_match_truth(*on_policy_distill(options), data);
      expect_steps_match_truth(*with_statistics(on_policy_distill(options)), data);
    }
  }
}

TEST(OnPolicyDistill, AnotherTeacherDoesNotMatchTheTruth) {
  const ObjectiveBatch data = make_objective_batch({});
  ObjectiveBatch other = data;
  for (float& teacher : other.batch.inputs[kOpdTeacher]) teacher *= 1.001f;
  for (const char* mode : {"\"k2\"", "\"k3\"", "\"score\""}) {
    const auto objective = on_policy_distill({{"loss_mode", mode}});
    EXPECT_NE(
        differences(run_objective(*objective, other), objective_truth(*objective, data), 1e-6), "");
  }
}

TEST(OnPolicyDistill, TheGradientIsThatOfFiniteDifferences) {
  for (const char* mode : {"\"abs\"", "\"k2\"", "\"k3\""}) {
    for (const char* bound : {"10", "null"}) {
      expect_gradient_of_differences(
          *on_policy_distill({{"loss_mode", mode}, {"loss_max_clamp", bound}}),
          make_objective_batch({}));
    }
  }
}

/// A gradient without the teacher in it would be as large.
TEST(OnPolicyDistill, HasNoGradientIfTheTeacherIsTheStudent) {
  ObjectiveBatchShape shape;
  shape.drift = Drift::equal;
  const ObjectiveBatch data = make_objective_batch(shape);
  for (const ObjectiveOptions& options : sampled_modes()) {
    const ObjectiveRun run = run_objective(*on_policy_distill(options), data);
    EXPECT_EQ(run.loss, 0);
    EXPECT_THAT(run.gradient, testing::Each(0.0f));
  }
}

/// The gradient is that of one side of a bound where the intervals of inputs straddle it.
TEST(OnPolicyDistill, HasBothSidesOfABound) {
  const ObjectiveBatch data = sampled_batch();
  const PackedBatch batch = with_needed(data.batch, on_policy_distill()->needs());
  std::vector<TokenTruth> rows(4);
  for (std::size_t t = 0; t < 3; ++t) {
    rows[t].logprob = Enclosure::around(static_cast<double>(data.logprobs[t]), 1e-6);
  }
  const auto objective = on_policy_distill({{"loss_mode", "\"abs\""}, {"loss_max_clamp", "3"}});
  const ObjectiveTruth truth = objective->truth(batch, rows);
  ASSERT_EQ(truth.grad_sides.size(), 1u);
  const std::vector<Enclosure>& sides = truth.grad_sides.at(2);
  ASSERT_EQ(sides.size(), 3u);
  EXPECT_EQ(sides[0].value, 1.0 / 8);
  EXPECT_EQ(sides[1].value, 0);
  EXPECT_LE(truth.grad_logprob[2].low, 0);
  EXPECT_GE(truth.grad_logprob[2].high, 1.0 / 8);
}

TEST(OnPolicyDistill, MeetsItsBoundAtTheEdges) {
  const auto edges = [](const char* mode) {
    return policy_edges(*on_policy_distill({{"loss_mode", mode}, {"loss_max_clamp", "0.5"}}))
        .teacher_offsets;
  };
  for (const double edge : {edges("\"k3\"").at[0], edges("\"k3\"").at[1]}) {
    EXPECT_NEAR(std::expm1(edge) - edge, 0.5, 1e-12);  // edge = -d
  }
  EXPECT_LT(edges("\"k3\"").at[0] * edges("\"k3\"").at[1], 0);
  EXPECT_EQ(edges("\"k2\"").at[0], 1);
  EXPECT_EQ(edges("\"abs\"").at[1], -0.5);
  const auto unbounded = on_policy_distill({{"loss_max_clamp", "null"}});
  EXPECT_EQ(policy_edges(*unbounded).teacher_offsets.count, 0);
}

TEST(OnPolicyDistill, RefusesWhatIsNotAnOption) {
  const auto message = [](const ObjectiveOptions& options) -> std::string {
    try {
      on_policy_distill(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({{"loss_max_clamp", "0"}}),
            "on_policy_distill: loss_max_clamp must be above 0, or null");
  // Its gradient has no teacher in it.
  EXPECT_THAT(message({{"loss_mode", "\"k1\""}}), testing::HasSubstr("loss_mode"));
  EXPECT_TRUE(on_policy_distill()->needs().needs(TokenInput::teacher_logprobs));
  EXPECT_FALSE(on_policy_distill()->linear());
}

}  // namespace
}  // namespace lossgrid
