// SPDX-License-Identifier: Apache-2.0
// The objective of a value head: by hand, against its truth and against finite differences.
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
#include "objective_batch.h"

namespace lossgrid {
namespace {

constexpr auto kReturns = static_cast<std::size_t>(TokenInput::returns);
constexpr auto kOldValues = static_cast<std::size_t>(TokenInput::old_values);

std::unique_ptr<Objective> value_loss(const ObjectiveOptions& options = {}) {
  return find_objective("value").make(options);
}

/// One state of a batch of two: its value, old value and return.
struct ValueState {
  float value;
  float old_value;
  float target;
};

ObjectiveBatch batch_of_state(const ValueState& state) {
  ObjectiveBatchShape shape;
  shape.lengths = {2};
  ObjectiveBatch data = make_objective_batch(shape);
  data.batch.token_mask = {1, 1};
  data.batch.denominators = {2, 1, 0, 1, 1};
  data.logprobs = {0, kPoison};
  data.terms[RowTerm::logsumexp] = {state.value, kPoison};
  data.batch.inputs[kReturns] = {kPoison, state.target};
  data.batch.inputs[kOldValues] = {kPoison, state.old_value};
  return data;
}

const ObjectiveOptions kClipped{{"cliprange_value", "0.5"}};

std::vector<ObjectiveOptions> value_options() {
  std::vector<ObjectiveOptions> all;
  for (const char* type : {"\"mse\"", "\"huber\""}) {
    for (const char* clip : {"null", "0.5", "0.2", "0"}) {
      all.push_back({{"loss_type", type}, {"cliprange_value", clip}});
      all.push_back({{"loss_type", type},
                     {"cliprange_value", clip},
                     {"huber_delta", "0.25"},
                     {"scale", "0.5"},
                     {"loss_agg_mode", "\"seq-mean-token-mean\""}});
    }
  }
  for (const char* mode : {"token-sum", "seq-mean-token-sum"}) {
    all.push_back({{"loss_agg_mode", fmt::format("\"{}\"", mode)}, {"cliprange_value", "0.3"}});
  }
  all.push_back({{"loss_agg_mode", "\"seq-mean-token-sum-norm\""}, {"loss_scale_factor", "7"}});
  return all;
}

TEST(ValueLoss, WorkedOutByHand) {
  const auto expect = [](const ObjectiveOptions& options, const ValueState& state, double loss,
                         double slope, double clipped) {
    SCOPED_TRACE(
        fmt::format("value {} old {} return {}", state.value, state.old_value, state.target));
    const ObjectiveRun run = run_objective(*value_loss(options), batch_of_state(state));
    EXPECT_DOUBLE_EQ(run.loss, loss / 2);
    EXPECT_FLOAT_EQ(run.term_gradients[RowTerm::logsumexp][0], static_cast<float>(slope / 2));
    EXPECT_EQ(run.gradient[0], 0);
    EXPECT_EQ(run.metrics.at("vf_clipfrac"), (Metric{Reduction::mean, clipped, 1}));
  };
  expect({}, {2, 9, 3}, 0.5, -1, 0);  // nothing is clipped
  expect(kClipped, {2, 1.75, 3}, 0.5, -1, 0);
  expect(kClipped, {2, 1, 3}, 1.125, 0, 1);  // c = 1.5 is further from the return
  expect(kClipped, {2, 1, 1}, 0.5, 1, 0);    // c = 1.5 is nearer
  expect(kClipped, {2, 1, 1.5625}, 0.4375 * 0.4375 / 2, 0.4375, 0);
  expect(kClipped, {2, 1, 1.75}, 0.03125, 0.125, 0);  // both as far: half of the gradient
  expect(kClipped, {2, 1.5, 3}, 0.5, -1, 0);          // the end of the range belongs to it
  expect(kClipped, {2, 2.5, 3}, 0.5, -1, 0);
  expect(kClipped, {2, 3, 0}, 3.125, 0, 1);  // below the range: c = 2.5
  expect({{"cliprange_value", "0"}}, {2, 1, 4}, 4.5, 0, 1);
  expect({{"cliprange_value", "0"}}, {2, 2, 4}, 2, -2, 0);
  const ObjectiveOptions huber{{"loss_type", "\"huber\""}, {"huber_delta", "0.5"}};
  expect(huber, {2, 0, 2.25}, 0.03125, -0.25, 0);
  expect(huber, {2, 0, 2.5}, 0.125, -0.5, 0);
  expect(huber, {2, 0, 5}, 0.5 * 2.75, -0.5, 0);
  expect({{"scale", "0.5"}}, {2, 9, 4}, 1, -1, 0);
}

TEST(ValueLoss, StepsMatchTheTruth) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    ObjectiveBatchShape shape;
    shape.seed = seed;
    shape.part_of_more = seed % 2 == 0;
    if (seed % 3 == 1) shape.sample_mask = {1, 1, 0, 1, 1, 0};
    ObjectiveBatch data = make_objective_batch(shape);
    for (const ObjectiveOptions& options : value_options()) {
      const auto objective = value_loss(options);
      ObjectiveRun run = run_objective(*objective, data);
      objective->add_derived(run.metrics);
      EXPECT_EQ(differences(run, objective_truth(*objective, data), 1e-12), "") << seed;
      ObjectiveRun of_ranks = run_objective(*objective, data, dealt(data, 4, seed));
      objective->add_derived(of_ranks.metrics);
      EXPECT_EQ(differences(of_ranks, objective_truth(*objective, data), 1e-12), "") << seed;
    }
  }
}

TEST(ValueLoss, TheGradientIsThatOfFiniteDifferences) {
  ObjectiveBatchShape shape;
  shape.lengths = {40, 1, 23, 0, 9};
  for (const ObjectiveOptions& options : value_options()) {
    ObjectiveBatch data = make_objective_batch(shape);
    // Off the ends of ranges and ties, where the loss has two slopes.
    for (float& target : data.batch.inputs[kReturns]) target += 0.0123f;
    for (float& old_value : data.batch.inputs[kOldValues]) old_value += 0.0321f;
    const auto objective = value_loss(options);
    const ObjectiveTruth truth = objective_truth(*objective, data);
    const PackedBatch batch = with_needed(data.batch, objective->needs());
    for (std::size_t row = 0; row < data.logprobs.size(); ++row) {
      if (std::isnan(data.logprobs[row])) continue;
      constexpr double kStep = 1e-5;
      const auto loss_at = [&](double step) {
        std::vector<TokenTruth> rows = token_truths(data);
        Enclosure& value = rows[row].terms[RowTerm::logsumexp];
        value = value.value + step;
        return objective->truth(batch, rows).loss.value;
      };
      const double numeric = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
      const double slope = truth.grad_terms[RowTerm::logsumexp][row].value;
      EXPECT_NEAR(slope, numeric, 1e-7 * (1 + std::abs(numeric))) << row;
    }
  }
}

TEST(ValueLoss, ReachesEveryBranch) {
  ObjectiveBatchShape shape;
  shape.lengths = {200, 100};
  const auto objective = value_loss({{"cliprange_value", "0.5"}, {"loss_type", "\"huber\""}});
  const ObjectiveTruth truth = objective_truth(*objective, make_objective_batch(shape));
  for (const char* branch :
       {"huber_linear", "value_inside", "value_at_end", "value_above", "value_below",
        "value_clipped", "value_not_clipped", "return_between"}) {
    EXPECT_GT(truth.branches.at(branch), 0) << branch;
  }
}

/// Means of parts of a batch are no mean of it, and no more is a share of a variance.
TEST(ValueLoss, ExplainsTheVarianceOfTheWholeBatch) {
  const auto objective = value_loss();
  Metrics metrics;
  const std::vector<ValueState> states{{1, 0, 2}, {3, 0, 2.5f}, {-1, 0, 0}};
  for (const ValueState& state : states) {
    join_metrics(metrics, run_objective(*objective, batch_of_state(state)).metrics);
  }
  objective->add_derived(metrics);
  // Returns 2, 2.5 and 0; residuals 1, -0.5 and 1.
  const double of_returns = (4 + 6.25) / 3 - 1.5 * 1.5;
  const double of_residuals = 2.25 / 3 - 0.25;
  EXPECT_DOUBLE_EQ(*metrics.at("explained_variance").value(), 1 - of_residuals / of_returns);
  EXPECT_DOUBLE_EQ(*metrics.at("values_min").value(), -1);
  EXPECT_DOUBLE_EQ(*metrics.at("values_max").value(), 3);

  Metrics of_one = run_objective(*objective, batch_of_state(states[0])).metrics;
  objective->add_derived(of_one);
  EXPECT_FALSE(of_one.at("explained_variance").value().has_value());
}

/// A value that may be on either side of an end of the range has one of three gradients.
TEST(ValueLoss, HasAllSidesOfASwitch) {
  const auto objective = value_loss(kClipped);
  const ObjectiveBatch data = batch_of_state({2, 1.5, 3});
  const PackedBatch batch = with_needed(data.batch, objective->needs());
  std::vector<TokenTruth> rows(2);
  rows[0].terms[RowTerm::logsumexp] = Enclosure::around(2, 1e-6);
  const ObjectiveTruth truth = objective->truth(batch, rows);
  std::vector<double> slopes;
  for (const Enclosure& side : truth.grad_sides.at(0)) slopes.push_back(2 * side.value);
  EXPECT_THAT(slopes, testing::UnorderedElementsAre(testing::DoubleNear(-1, 1e-5), 0,
                                                    testing::DoubleNear(-0.5, 1e-5)));
  EXPECT_TRUE(objective_truth(*objective, data).grad_sides.empty());  // known exactly
}

TEST(ValueLoss, HasNoTokensOrNoSequencesToDivideBy) {
  ObjectiveBatchShape shape;
  shape.sample_mask = {0, 0, 0, 0, 0, 0};
  shape.part_of_more = false;
  const ObjectiveBatch data = make_objective_batch(shape);
  for (const ObjectiveOptions& options : value_options()) {
    ObjectiveRun run = run_objective(*value_loss(options), data);
    value_loss(options)->add_derived(run.metrics);
    EXPECT_EQ(run.loss, 0);
    for (const char* name : {"values_mean", "values_min", "values_max", "explained_variance"}) {
      EXPECT_FALSE(run.metrics.at(name).value().has_value()) << name;
    }
  }
}

TEST(ValueLoss, RefusesWhatIsNotAnOption) {
  const auto message = [](const ObjectiveOptions& options) -> std::string {
    try {
      value_loss(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message({{"cliprange_value", "-1"}}), testing::HasSubstr("cliprange_value"));
  EXPECT_THAT(message({{"huber_delta", "0"}}), testing::HasSubstr("huber_delta"));
  EXPECT_THAT(message({{"scale", "-1"}}), testing::HasSubstr("scale"));
  EXPECT_THAT(message({{"loss_scale_factor", "2"}}), testing::HasSubstr("need each other"));
  EXPECT_THAT(message({{"loss_agg_mode", "\"prompt-mean\""}}), testing::HasSubstr("loss_agg_mode"));
  EXPECT_EQ(value_loss()->needs().head, Head::value);
  EXPECT_FALSE(value_loss()->needs().needs(TokenInput::old_values));
  EXPECT_TRUE(value_loss(kClipped)->needs().needs(TokenInput::old_values));
}

}  // namespace
}  // namespace lossgrid
