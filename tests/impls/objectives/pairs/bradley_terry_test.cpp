// SPDX-License-Identifier: Apache-2.0
// The objective of a reward model: by hand, against its truth and against finite differences.
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

std::unique_ptr<Objective> bradley_terry(const ObjectiveOptions& options = {}) {
  return find_objective("bradley_terry").make(options);
}

/// Sequences of two tokens with these scores, in pairs; the score stands in the second row.
ObjectiveBatch batch_of_scores(const std::vector<float>& scores) {
  ObjectiveBatchShape shape;
  shape.lengths.assign(scores.size(), 2);
  shape.ahead = 0;
  shape.part_of_more = false;
  ObjectiveBatch data = make_objective_batch(shape);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    data.batch.token_mask[2 * i] = 0;
    data.batch.token_mask[2 * i + 1] = 1;
    data.logprobs[2 * i] = data.terms[RowTerm::logsumexp][2 * i] = kPoison;
    data.logprobs[2 * i + 1] = 0;
    data.terms[RowTerm::logsumexp][2 * i + 1] = scores[i];
  }
  return data;
}

std::vector<ObjectiveOptions> reward_options() {
  return {{},
          {{"margin", "true"}},
          {{"center_rewards_coefficient", "0.01"}},
          {{"margin", "true"}, {"center_rewards_coefficient", "0.5"}}};
}

const std::vector<float>& slopes_of(const ObjectiveRun& run) {
  return run.term_gradients[RowTerm::logsumexp];
}

TEST(BradleyTerry, WorkedOutByHand) {
  ObjectiveBatch data = batch_of_scores({2, 1, -1, 1});
  const double first = std::log1p(std::exp(-1.0));
  const double second = std::log1p(std::exp(2.0));
  const ObjectiveRun run = run_objective(*bradley_terry(), data);
  EXPECT_NEAR(run.loss, (first + second) / 2, 1e-14);
  const double by_first = -1 / (1 + std::exp(1.0)) / 2;
  const double by_second = -1 / (1 + std::exp(-2.0)) / 2;
  EXPECT_THAT(slopes_of(run),
              testing::ElementsAre(0, testing::FloatEq(static_cast<float>(by_first)), 0,
                                   testing::FloatEq(static_cast<float>(-by_first)), 0,
                                   testing::FloatEq(static_cast<float>(by_second)), 0,
                                   testing::FloatEq(static_cast<float>(-by_second))));
  EXPECT_EQ(run.metrics.at("accuracy"), (Metric{Reduction::mean, 1, 2}));
  EXPECT_EQ(run.metrics.at("mean_reward"), (Metric{Reduction::mean, 3, 4}));
  EXPECT_EQ(run.metrics.at("min_reward"), (Metric{Reduction::min, -1, 4}));
  EXPECT_EQ(run.metrics.at("max_reward"), (Metric{Reduction::max, 2, 4}));

  data.batch.rewards = {3, 1, 0, 0.5f};
  const ObjectiveRun margin = run_objective(*bradley_terry({{"margin", "true"}}), data);
  EXPECT_NEAR(margin.loss, (std::log1p(std::exp(1.0)) + std::log1p(std::exp(1.5))) / 2, 1e-14);
  const ObjectiveRun centred =
      run_objective(*bradley_terry({{"center_rewards_coefficient", "0.5"}}), data);
  EXPECT_NEAR(centred.loss, run.loss + 0.5 * 9 / 2, 1e-14);
  EXPECT_FLOAT_EQ(slopes_of(centred)[1], static_cast<float>(by_first + 1.5));
  EXPECT_FLOAT_EQ(slopes_of(centred)[3], static_cast<float>(-by_first + 1.5));
}

/// Equal scores are no pair that was put in order.
TEST(BradleyTerry, CountsTiesAsWrong) {
  const ObjectiveRun run = run_objective(*bradley_terry(), batch_of_scores({0.5f, 0.5f, 1, 0}));
  EXPECT_EQ(run.metrics.at("accuracy"), (Metric{Reduction::mean, 1, 2}));
  EXPECT_NEAR(run.loss, (std::log(2.0) + std::log1p(std::exp(-1.0))) / 2, 1e-14);
}

TEST(BradleyTerry, DoesNotOverflowForScoresThatAreFarApart) {
  const ObjectiveRun wrong = run_objective(*bradley_terry(), batch_of_scores({-1e4f, 1e4f}));
  EXPECT_DOUBLE_EQ(wrong.loss, 2e4);
  EXPECT_THAT(slopes_of(wrong), testing::ElementsAre(0, -1, 0, 1));
  const ObjectiveRun right = run_objective(*bradley_terry(), batch_of_scores({1e4f, -1e4f}));
  EXPECT_EQ(right.loss, 0);
  EXPECT_THAT(slopes_of(right), testing::Each(0.0f));
}

TEST(BradleyTerry, SkipsPairsWithoutTwoScores) {
  ObjectiveBatch data = batch_of_scores({2, 1, -1, 1});
  data.batch.token_mask[3] = 0;
  const ObjectiveRun run = run_objective(*bradley_terry(), data);
  EXPECT_NEAR(run.loss, std::log1p(std::exp(2.0)), 1e-14);
  EXPECT_EQ(slopes_of(run)[1], 0);
  EXPECT_EQ(run.metrics.at("num_valid_samples"), (Metric{Reduction::count, 1, 1}));
  EXPECT_EQ(differences(run, objective_truth(*bradley_terry(), data), 1e-12), "");
}

TEST(BradleyTerry, StepsMatchTheTruth) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ObjectiveBatchShape shape;
    shape.lengths = {9, 1, 6, 0, 12, 2, 1, 1};
    shape.ahead = 0;
    shape.seed = seed;
    if (seed % 3 == 1) shape.sample_mask = {1, 1, 1, 1, 0, 0, 1, 1};
    const ObjectiveBatch data = make_objective_batch(shape);
    for (const ObjectiveOptions& options : reward_options()) {
      const auto objective = bradley_terry(options);
      const ObjectiveTruth truth = objective_truth(*objective, data);
      EXPECT_EQ(differences(run_objective(*objective, data), truth, 1e-12), "") << seed;
      EXPECT_EQ(differences(run_objective(*objective, data, dealt(data, 4, seed)), truth, 1e-12),
                "")
          << seed;
    }
  }
}

TEST(BradleyTerry, TheGradientIsThatOfFiniteDifferences) {
  ObjectiveBatchShape shape;
  shape.lengths = {9, 1, 6, 3, 12, 2, 1, 1, 4, 4, 5, 5};
  shape.masked_share = 0;
  shape.ahead = 0;
  const ObjectiveBatch data = make_objective_batch(shape);
  for (const ObjectiveOptions& options : reward_options()) {
    expect_gradient_of_differences(*bradley_terry(options), data);
  }
}

TEST(BradleyTerry, RefusesWhatIsNoPairOrNoOption) {
  const auto message = [](auto&& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([] {
                bradley_terry({{"center_rewards_coefficient", "-1"}});
              }),
              testing::HasSubstr("center_rewards_coefficient"));
  EXPECT_THAT(message([] {
                bradley_terry()->require(batch_of_scores({1, 2, 3}).batch);
              }),
              testing::HasSubstr("bradley_terry: sequence 2 has no partner"));
  EXPECT_EQ(bradley_terry()->needs().head, Head::score);
  EXPECT_EQ(bradley_terry()->needs().sequences_per_unit, 2);
}

}  // namespace
}  // namespace lossgrid
