// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../problem/expect_error.h"
#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

std::unique_ptr<Objective> nll(bool token_level) {
  return find_objective("nll").make({{"token_level_loss", token_level ? "true" : "false"}});
}

/// Three sequences of which the last is masked as a whole; the pack is a part of a batch of 6 valid
/// tokens in 4 valid sequences. Valid rows 0, 2 and 4 have log-probabilities -1, -2 and -4.
ObjectiveBatch nll_batch() {
  ObjectiveBatchShape shape;
  shape.lengths = {4, 2, 3};
  shape.sample_mask = {1, 1, 0};
  ObjectiveBatch data = make_objective_batch(shape);
  data.batch.token_mask = {1, 1, 0, 1, 0, 1, 1, 1, 1};
  data.batch.denominators = {6, 4, 0};
  data.logprobs.assign(9, kPoison);
  data.logprobs[0] = -1;
  data.logprobs[2] = -2;
  data.logprobs[4] = -4;
  return data;
}

std::vector<ObjectiveBatchShape> random_shapes() {
  std::vector<ObjectiveBatchShape> shapes;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ObjectiveBatchShape shape;
    shape.seed = seed;
    shape.part_of_more = seed % 2 == 0;
    if (seed % 3 == 0) shape.sample_mask = {1, 1, 0, 1, 1, 0};
    if (seed % 5 == 0) shape.masked_share = 0;
    shapes.push_back(shape);
  }
  return shapes;
}

TEST(Nll, TokenLevelWorkedOutByHand) {
  const ObjectiveRun run = run_objective(*nll(true), nll_batch());
  EXPECT_DOUBLE_EQ(run.loss, 7.0 / 6);
  EXPECT_EQ(run.metrics.at("loss"), (Metric{Reduction::sum, run.loss, 1}));
  EXPECT_EQ(run.metrics.at("num_unmasked_tokens"), (Metric{Reduction::count, 3, 1}));
  EXPECT_EQ(run.metrics.at("num_valid_samples"), (Metric{Reduction::count, 2, 1}));
  const float g = -1.0f / 6;
  EXPECT_EQ(run.gradient, (std::vector<float>{g, 0, g, 0, g, 0, 0, 0, 0}));
}

TEST(Nll, SequenceMeanWorkedOutByHand) {
  const ObjectiveRun run = run_objective(*nll(false), nll_batch());
  EXPECT_DOUBLE_EQ(run.loss, (3.0 / 2 + 4) / 4);
  EXPECT_EQ(run.metrics.at("num_unmasked_tokens").value(), 3);
  EXPECT_EQ(run.metrics.at("num_valid_samples").value(), 2);
  EXPECT_EQ(run.gradient, (std::vector<float>{-0.125f, 0, -0.125f, 0, -0.25f, 0, 0, 0, 0}));
}

TEST(Nll, IsTokenLevelUnlessAskedOtherwise) {
  const auto by_default = find_objective("nll").make({});
  EXPECT_EQ(run_objective(*by_default, nll_batch()).loss,
            run_objective(*nll(true), nll_batch()).loss);
  EXPECT_EQ(by_default->sizes().sequence_sums, 0);
  EXPECT_EQ(by_default->sizes().coefficients, 0);
}

TEST(Nll, StepsMatchTheTruth) {
  for (const ObjectiveBatchShape& shape : random_shapes()) {
    const ObjectiveBatch data = make_objective_batch(shape);
    for (const bool token_level : {true, false}) {
      SCOPED_TRACE(fmt::format("token_level {}, seed {}", token_level, shape.seed));
      expect_steps_match_truth(*nll(token_level), data);
      expect_steps_match_truth(*with_statistics(nll(token_level)), data);
    }
  }
}

TEST(Nll, TokenAndSequenceLevelAreNotTheSame) {
  for (const ObjectiveBatchShape& shape : random_shapes()) {
    const ObjectiveBatch data = make_objective_batch(shape);
    for (const bool token_level : {true, false}) {
      EXPECT_NE(differences(run_objective(*nll(!token_level), data),
                            objective_truth(*nll(token_level), data), 1e-6),
                "");
    }
  }
}

TEST(Nll, TheGradientOfTheTruthIsThatOfFiniteDifferences) {
  ObjectiveBatchShape shape;
  shape.sample_mask = {1, 1, 0, 1, 1, 1};
  const ObjectiveBatch data = make_objective_batch(shape);
  for (const bool token_level : {true, false}) {
    const auto objective = nll(token_level);
    const std::vector<Enclosure> gradient = objective_truth(*objective, data).grad_logprob;
    int valid = 0;
    for (std::int64_t row = 0; row < data.rows(); ++row) {
      const auto loss_at = [&](double step) {
        std::vector<TokenTruth> rows = token_truths(data);
        rows[row].logprob = rows[row].logprob.value + step;
        return objective->truth(data.batch, rows).loss.value;
      };
      const double expected = (loss_at(0.25) - loss_at(-0.25)) / 0.5;  // the loss is linear
      EXPECT_NEAR(gradient[row].value, expected, 1e-13) << row;
      valid += expected != 0;
    }
    EXPECT_GT(valid, 5);
  }
}

std::unique_ptr<Objective> dft(bool token_level) {
  return find_objective("nll").make(
      {{"token_level_loss", token_level ? "true" : "false"}, {"loss_type", "\"dft\""}});
}

TEST(Nll, DftWorkedOutByHand) {
  const double a = std::exp(-1);
  const double b = std::exp(-2);
  const double c = std::exp(-4);
  const ObjectiveRun by_token = run_objective(*dft(true), nll_batch());
  EXPECT_DOUBLE_EQ(by_token.loss, (a + 2 * b + 4 * c) / 6);
  EXPECT_FLOAT_EQ(by_token.gradient[0], static_cast<float>(-a / 6));
  EXPECT_FLOAT_EQ(by_token.gradient[2], static_cast<float>(-b / 6));
  EXPECT_FLOAT_EQ(by_token.gradient[4], static_cast<float>(-c / 6));
  const ObjectiveRun by_sequence = run_objective(*dft(false), nll_batch());
  EXPECT_DOUBLE_EQ(by_sequence.loss, ((a + 2 * b) / 2 + 4 * c) / 4);
  EXPECT_FLOAT_EQ(by_sequence.gradient[4], static_cast<float>(-c / 4));
  EXPECT_FALSE(dft(true)->linear());
}

TEST(Nll, DftStepsMatchTheTruth) {
  for (const ObjectiveBatchShape& shape : random_shapes()) {
    const ObjectiveBatch data = make_objective_batch(shape);
    for (const bool token_level : {true, false}) {
      SCOPED_TRACE(fmt::format("token_level {}, seed {}", token_level, shape.seed));
      expect_steps_match_truth(*dft(token_level), data);
      EXPECT_NE(differences(run_objective(*nll(token_level), data),
                            objective_truth(*dft(token_level), data), 1e-6),
                "");
    }
  }
}

/// The loss has its weights held where they are.
TEST(Nll, TheGradientOfDftIsThatOfFiniteDifferences) {
  const ObjectiveBatch data = make_objective_batch({});
  const auto truth_of = [&](std::int64_t row, double step) {
    std::vector<TokenTruth> rows = token_truths(data);
    rows[row].logprob = rows[row].logprob.value + step;
    return dft(true)->truth(data.batch, rows);
  };
  const ObjectiveTruth truth = truth_of(0, 0);
  constexpr double kStep = 1e-5;
  int valid = 0;
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    if (std::isnan(data.logprobs[row])) continue;
    // d (p lp) / d lp = p (1 + lp), of which the weight's part is p lp.
    const double whole =
        (truth_of(row, kStep).loss.value - truth_of(row, -kStep).loss.value) / (2 * kStep);
    const double of_weight = truth.grad_logprob[row].value * data.logprobs[row];
    EXPECT_NEAR(truth.grad_logprob[row].value + of_weight, whole, 1e-9);
    ++valid;
  }
  EXPECT_GT(valid, 5);
}

TEST(Nll, DftExcludesRowTerms) {
  for (const char* option : {"label_smoothing", "z_loss_coefficient"}) {
    expect_bad_input(
        [&] {
          find_objective("nll").make({{"loss_type", "\"dft\""}, {option, "0.5"}});
        },
        {"dft", option});
  }
}

/// nll with smoothing 0.1 or none, and z-loss 0.5 or none.
std::vector<std::unique_ptr<Objective>> nll_with_terms() {
  std::vector<std::unique_ptr<Objective>> objectives;
  for (const char* token_level : {"true", "false"}) {
    for (const char* smoothing : {"0", "0.1"}) {
      for (const char* z_loss : {"0", "0.5"}) {
        objectives.push_back(find_objective("nll").make({{"token_level_loss", token_level},
                                                         {"label_smoothing", smoothing},
                                                         {"z_loss_coefficient", z_loss}}));
      }
    }
  }
  return objectives;
}

/// By hand: (0.9 x 7 + 0.1 x (2 + 3 + 5) + 0.5 x (1 + 4 + 0)) / 6.
TEST(Nll, SmoothingAndZLossWorkedOutByHand) {
  ObjectiveBatch data = nll_batch();
  data.terms[RowTerm::mean_logprob].assign(9, kPoison);
  data.terms[RowTerm::logsumexp].assign(9, kPoison);
  const std::pair<int, std::pair<float, float>> rows[] = {
      {0, {-2, 1}}, {2, {-3, -2}}, {4, {-5, 0}}};
  for (const auto& [row, numbers] : rows) {
    std::tie(data.terms[RowTerm::mean_logprob][row], data.terms[RowTerm::logsumexp][row]) = numbers;
  }
  const auto objective =
      find_objective("nll").make({{"label_smoothing", "0.1"}, {"z_loss_coefficient", "0.5"}});
  const ObjectiveRun run = run_objective(*objective, data);
  EXPECT_NEAR(run.loss, (6.3 + 1 + 2.5) / 6, 1e-15);
  EXPECT_FLOAT_EQ(run.gradient[2], -0.9f / 6);
  EXPECT_FLOAT_EQ(run.term_gradients[RowTerm::logsumexp][2], -2.0f / 6);
  EXPECT_FLOAT_EQ(run.term_gradients[RowTerm::mean_logprob][2], -0.1f / 6);
  EXPECT_EQ(run.gradient[1], 0);
  EXPECT_EQ(run.term_gradients[RowTerm::logsumexp][1], 0);
  EXPECT_EQ(run.term_gradients[RowTerm::mean_logprob][1], 0);
  EXPECT_TRUE(run.term_gradients[RowTerm::entropy].empty());
}

TEST(Nll, StepsWithTermsMatchTheTruth) {
  for (const ObjectiveBatchShape& shape : random_shapes()) {
    const ObjectiveBatch data = make_objective_batch(shape);
    for (const auto& objective : nll_with_terms()) expect_steps_match_truth(*objective, data);
  }
}

TEST(Nll, GradientsByTermsAreThoseOfFiniteDifferences) {
  for (const auto& objective : nll_with_terms()) {
    expect_gradient_of_differences(*objective, make_objective_batch({}));
  }
}

/// A gradient that is known before the forward pass is what linear() promises.
TEST(Nll, IsLinearUnlessItHasAZLoss) {
  const auto is_linear = [](const char* option) {
    return find_objective("nll").make({{option, "0.5"}})->linear();
  };
  EXPECT_TRUE(is_linear("label_smoothing"));
  EXPECT_FALSE(is_linear("z_loss_coefficient"));
}

TEST(Nll, RefusesTermsOutOfRange) {
  const auto message = [](const char* option, const char* value) {
    try {
      find_objective("nll").make({{option, value}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("label_smoothing", "1"), "nll: label_smoothing must be in [0, 1)");
  EXPECT_EQ(message("label_smoothing", "-0.1"), "nll: label_smoothing must be in [0, 1)");
  EXPECT_EQ(message("z_loss_coefficient", "-1"), "nll: z_loss_coefficient must not be negative");
}

TEST(Nll, NoSplitOverRanksChangesIt) {
  const ObjectiveBatch data = make_objective_batch(random_shapes()[1]);
  for (const bool token_level : {true, false}) {
    const auto objective = nll(token_level);
    const ObjectiveRun all = run_objective(*objective, data);
    for (const int ranks : {2, 3, 8}) {
      const ObjectiveRun split = run_objective(*objective, data, dealt(data, ranks, 4));
      EXPECT_NEAR(split.loss, all.loss, 1e-14 * all.loss);
      EXPECT_EQ(split.gradient, all.gradient);
      EXPECT_EQ(split.metrics.at("num_unmasked_tokens"), all.metrics.at("num_unmasked_tokens"));
      EXPECT_EQ(split.metrics.at("num_valid_samples"), all.metrics.at("num_valid_samples"));
    }
  }
}

TEST(Nll, IsZeroWithoutValidTokens) {
  ObjectiveBatchShape shape;
  shape.part_of_more = false;
  shape.sample_mask = {0, 0, 0, 0, 0, 0};
  ObjectiveBatchShape masked_tokens = shape;
  masked_tokens.sample_mask = {};
  masked_tokens.masked_share = 1;
  ObjectiveBatchShape empty = shape;
  empty.lengths = {0, 0};
  empty.sample_mask = {1, 1};
  for (const ObjectiveBatchShape& nothing : {shape, masked_tokens, empty}) {
    const ObjectiveBatch data = make_objective_batch(nothing);
    for (const bool token_level : {true, false}) {
      const ObjectiveRun run = run_objective(*nll(token_level), data);
      EXPECT_EQ(run.loss, 0);
      EXPECT_EQ(run.metrics.at("loss").value(), 0);
      EXPECT_EQ(run.metrics.at("num_unmasked_tokens").value(), 0);
      EXPECT_THAT(run.gradient, ::testing::Each(0.0f));
      expect_steps_match_truth(*nll(token_level), data);
    }
  }
}

TEST(Nll, WithoutDenominatorsIsZero) {
  ObjectiveBatch data = nll_batch();
  data.batch.denominators = {0, 0, 0};
  for (const bool token_level : {true, false}) {
    const ObjectiveRun run = run_objective(*nll(token_level), data);
    EXPECT_EQ(run.loss, 0);
    EXPECT_THAT(run.gradient, ::testing::Each(0.0f));
    expect_steps_match_truth(*nll(token_level), data);
  }
}

TEST(Nll, RefusesWhatIsNotAnOption) {
  const auto message_of = [](const ObjectiveOptions& options) -> std::string {
    try {
      find_objective("nll").make(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message_of({{"token_level_loss", "1"}}),
            "nll: token_level_loss = 1 is not true or false");
  EXPECT_THAT(message_of({{"token_level_los", "true"}}), ::testing::HasSubstr("token_level_los"));
}

}  // namespace
}  // namespace lossgrid
