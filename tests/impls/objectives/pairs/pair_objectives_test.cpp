// SPDX-License-Identifier: Apache-2.0
// Objectives of pairs beside `dpo`: `cpo` (SimPO, AlphaPO), `orpo` and `kto`, each by its formula,
// its steps against its truth, the truth against finite differences, and at its ends.
#include <cmath>
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dpo_batches.h"
#include "harness/core/error.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

using ::testing::Each;

std::unique_ptr<Objective> objective_of(const ObjectiveSpec& spec) {
  return find_objective(spec.kind).make(spec.options);
}

/// `cpo` and `orpo` with every option.
std::vector<ObjectiveSpec> reference_free() {
  return {{"cpo", {}},
          {"cpo", {{"label_smoothing", "0.2"}, {"cpo_alpha", "0"}, {"beta", "0.7"}}},
          {"cpo", {{"loss_type", "\"simpo\""}, {"beta", "2"}}},
          {"cpo",
           {{"loss_type", "\"simpo\""},
            {"label_smoothing", "0.1"},
            {"simpo_gamma", "1.5"},
            {"alpha", "0.25"},
            {"cpo_alpha", "0.5"}}},
          {"cpo", {{"loss_type", "\"hinge\""}, {"sft_average_log_probs", "false"}}},
          {"cpo", {{"loss_type", "\"ipo\""}, {"alpha", "0.1"}}},
          {"orpo", {}},
          {"orpo", {{"beta", "2"}, {"sft_average_log_probs", "false"}}}};
}

std::vector<ObjectiveSpec> unpaired() {
  return {{"kto", {}},
          {"kto", {{"beta", "0.5"}, {"desirable_weight", "1.5"}, {"undesirable_weight", "0.5"}}},
          {"kto", {{"loss_type", "\"apo_zero_unpaired\""}}}};
}

std::vector<ObjectiveSpec> all_of_pairs() {
  std::vector<ObjectiveSpec> all = reference_free();
  for (const ObjectiveSpec& spec : unpaired()) all.push_back(spec);
  return all;
}

std::string described(const ObjectiveSpec& spec) {
  std::string text = spec.kind + " ";
  for (const auto& [option, value] : spec.options) text += option + "=" + value + " ";
  return text;
}

double logistic_at(double x) {
  return 1 / (1 + std::exp(-x));
}

double loss_of_small(const ObjectiveSpec& spec) {
  return run_objective(*objective_of(spec), small_pairs()).loss;
}

// Sums of log-probabilities of small_pairs(): -3 of two tokens and -1, -3 and -0.5.

TEST(PairObjectives, CpoWorkedOutByHand) {
  const double sft = (1.5 + 3) / 4;
  const auto s = logistic_at;
  EXPECT_DOUBLE_EQ(loss_of_small({"cpo", {{"beta", "0.5"}, {"cpo_alpha", "0.25"}}}),
                   (-std::log(s(0.5 * -2)) - std::log(s(0.5 * -2.5))) / 4 + 0.25 * sft);
  EXPECT_DOUBLE_EQ(
      loss_of_small({"cpo", {{"loss_type", "\"simpo\""}, {"beta", "2"}, {"cpo_alpha", "0"}}}),
      (-std::log(s(2 * -0.5 - 0.5)) - std::log(s(2 * -2.5 - 0.5))) / 4);
  const auto r = [](double x) { return (1 - std::exp(-0.25 * x)) / 0.25; };
  EXPECT_DOUBLE_EQ(
      loss_of_small(
          {"cpo",
           {{"loss_type", "\"simpo\""}, {"beta", "2"}, {"alpha", "0.25"}, {"cpo_alpha", "0"}}}),
      (-std::log(s(2 * (r(-1.5) - r(-1)) - 0.5)) - std::log(s(2 * (r(-3) - r(-0.5)) - 0.5))) / 4);
  EXPECT_DOUBLE_EQ(loss_of_small({"cpo", {{"loss_type", "\"hinge\""}, {"cpo_alpha", "0"}}}),
                   (1.2 + 1.25) / 4);
  EXPECT_DOUBLE_EQ(loss_of_small({"cpo", {{"loss_type", "\"ipo\""}, {"cpo_alpha", "0"}}}),
                   (5.5 * 5.5 + 7.5 * 7.5) / 4);
}

TEST(PairObjectives, OrpoWorkedOutByHand) {
  const auto odds = [](double x) { return std::exp(x) / (1 - std::exp(x)); };
  const auto l = [&](double c, double r) {
    return -std::log(logistic_at(std::log(odds(c) / odds(r))));
  };
  EXPECT_DOUBLE_EQ(loss_of_small({"orpo", {{"beta", "0.5"}}}),
                   (0.5 * (l(-1.5, -1) + l(-3, -0.5)) + 1.5 + 3) / 4);
}

/// Returns small_pairs() with rewards by pair; sums of log-ratios are 0.75, -0.5, -1 and 0.5.
ObjectiveBatch small_examples(float first, float second) {
  ObjectiveBatch data = small_pairs();
  data.batch.rewards = {first, kPoison, second, kPoison};
  return data;
}

TEST(PairObjectives, KtoWorkedOutByHand) {
  const auto objective = objective_of(
      {"kto", {{"beta", "0.5"}, {"desirable_weight", "1.5"}, {"undesirable_weight", "0.5"}}});
  // The mean of the mismatched ones is 0.
  const ObjectiveRun at_zero = run_objective(*objective, small_examples(1, -1));
  EXPECT_DOUBLE_EQ(at_zero.loss,
                   (1.5 * logistic_at(-0.5 * 0.75) + 0.5 * logistic_at(0.5 * -1)) / 4);
  EXPECT_EQ(at_zero.metrics.at("rewards_desirable_mean").value(), 0.75);
  EXPECT_EQ(at_zero.metrics.at("rewards_undesirable_mean").value(), -1);

  ObjectiveBatch data = small_examples(1, 0);
  for (const double kl : {0.25, -0.25}) {
    data.batch.inputs[kReference][11] = static_cast<float>(-1 - 2 * kl);  // of the second pair
    const double used = std::max(kl, 0.0);
    const ObjectiveRun run = run_objective(*objective, data);
    EXPECT_DOUBLE_EQ(
        run.loss,
        (1.5 * logistic_at(-0.5 * (0.75 - used)) + 0.5 * logistic_at(0.5 * (-1 - used))) / 4);
    EXPECT_EQ(run.metrics.at("kl").value(), used);
    const double s = logistic_at(0.5 * (0.75 - used));
    EXPECT_FLOAT_EQ(run.gradient[0], static_cast<float>(-1.5 * 0.5 * s * (1 - s) / 4));
    EXPECT_EQ(run.gradient[10], 0);
    expect_steps_match_truth(*objective, data);
  }
  EXPECT_FALSE(run_objective(*objective, small_examples(1, 1))
                   .metrics.at("rewards_undesirable_mean")
                   .value());
}

TEST(PairObjectives, StepsMatchTheTruth) {
  std::map<std::string, std::int64_t> branches;
  for (const ObjectiveSpec& spec : all_of_pairs()) {
    SCOPED_TRACE(described(spec));
    const auto objective = objective_of(spec);
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const ObjectiveBatch data = make_objective_batch(random_pairs(seed));
      expect_steps_match_truth(*objective, data);
      for (const auto& [name, count] : objective_truth(*objective, data).branches) {
        branches[name] += count;
      }
    }
  }
  for (const auto& [branch, count] : branches) EXPECT_GT(count, 0) << branch;
  for (const char* branch :
       {"pairs_hinge_active", "pairs_hinge_flat", "pairs_without_odds", "pairs_desirable",
        "pairs_undesirable", "pairs_kl_live", "pairs_kl_clamped"}) {
    EXPECT_TRUE(branches.contains(branch)) << branch;
  }
}

TEST(PairObjectives, TheGradientOfTheTruthIsThatOfFiniteDifferences) {
  const ObjectiveBatch data = make_objective_batch(random_pairs(6));
  for (const ObjectiveSpec& spec : reference_free()) {
    SCOPED_TRACE(described(spec));
    expect_gradient_of_differences(*objective_of(spec), data);
  }
}

TEST(PairObjectives, TheGradientOfKtoIsThatOfTheExamplesAlone) {
  constexpr double kStep = 1e-4;
  ObjectiveBatchShape shape = random_pairs(6);
  shape.sample_mask = {};
  const ObjectiveBatch data = make_objective_batch(shape);
  for (const ObjectiveSpec& spec : unpaired()) {
    SCOPED_TRACE(described(spec));
    const auto objective = objective_of(spec);
    const PackedBatch batch = with_needed(data.batch, objective->needs());
    const std::vector<Enclosure> gradient = objective_truth(*objective, data).grad_logprob;
    int examples = 0;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      for (std::int64_t row = batch.cu_seqlens[i]; row < batch.cu_seqlens[i + 1]; ++row) {
        const auto loss_at = [&](double step) {
          std::vector<TokenTruth> rows = token_truths(data);
          rows[row].logprob = rows[row].logprob.value + step;
          return objective->truth(batch, rows).loss.value;
        };
        const double numeric = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
        EXPECT_NEAR(gradient[row].value, i % 2 == 0 ? numeric : 0, 1e-9) << row;
        examples += gradient[row].value != 0 ? 1 : 0;
      }
    }
    EXPECT_GT(examples, 5);
  }
}

TEST(PairObjectives, NoSplitOverRanksChangesThem) {
  const ObjectiveBatch data = make_objective_batch(random_pairs(6));
  for (const ObjectiveSpec& spec : all_of_pairs()) {
    SCOPED_TRACE(described(spec));
    const auto objective = objective_of(spec);
    const ObjectiveTruth truth = objective_truth(*objective, data);
    for (const int ranks : {2, 8}) {
      EXPECT_EQ(differences(run_objective(*objective, data, dealt(data, ranks, 3)), truth, 1e-12),
                "");
    }
  }
}

TEST(PairObjectives, WithoutSequencesOrValidOnesAreZero) {
  ObjectiveBatchShape none;
  none.lengths = {};
  ObjectiveBatchShape masked = random_pairs(1);
  masked.sample_mask.assign(8, 0);
  for (const ObjectiveSpec& spec : all_of_pairs()) {
    SCOPED_TRACE(described(spec));
    for (const ObjectiveBatchShape& shape : {none, masked}) {
      const ObjectiveBatch data = make_objective_batch(shape);
      const auto objective = objective_of(spec);
      objective->require(data.batch);
      const ObjectiveRun run = run_objective(*objective, data);
      EXPECT_EQ(run.loss, 0);
      EXPECT_THAT(run.gradient, Each(0.0f));
      expect_steps_match_truth(*objective, data);
    }
  }
}

TEST(PairObjectives, OrpoKeepsItsDigitsWhereProbabilitiesAreNearOne) {
  ObjectiveBatch data = small_pairs();
  data.logprobs[0] = data.logprobs[2] = -1e-9f;
  const auto objective = objective_of({"orpo", {{"beta", "1"}}});
  expect_steps_match_truth(*objective, data);
  // o = log((1 - exp(r)) / (1e-9 exp(r))) at r = -1.
  const double first = std::log1p(1e-9 / (std::exp(1.0) - 1));
  const double second = std::log1p(std::exp(3 - 0.5) * (1 - std::exp(-3)) / (1 - std::exp(-0.5)));
  EXPECT_NEAR(run_objective(*objective, data).loss, (first + second + 1e-9 + 3) / 4, 1e-12);
  // Certain ones, even where rounding errors take them above 0.
  for (const float logprob : {0.0f, 1e-7f}) {
    data.logprobs[0] = data.logprobs[2] = logprob;
    const ObjectiveRun run = run_objective(*objective, data);
    EXPECT_NEAR(run.loss, (second + 3) / 4, 1e-7);
    for (const float gradient : run.gradient) EXPECT_TRUE(std::isfinite(gradient));
    expect_steps_match_truth(*objective, data);
  }
  data.logprobs[5] = 0;
  EXPECT_TRUE(std::isfinite(run_objective(*objective, data).loss));
  EXPECT_TRUE(std::isfinite(objective_truth(*objective, data).loss.value));
}

// exp(100) is no float32, exp(800) no float64.
TEST(PairObjectives, RewardsOfAlphaPoThatOverflowHaveADifference) {
  for (const char* type : {"\"sigmoid\"", "\"hinge\""}) {
    const auto objective = objective_of(
        {"cpo", {{"loss_type", type}, {"alpha", "1"}, {"beta", "20"}, {"cpo_alpha", "0"}}});
    for (const float sum : {-100.0f, -800.0f}) {
      ObjectiveBatch data = small_pairs();
      data.logprobs[0] = data.logprobs[2] = sum / 2;
      data.logprobs[5] = sum - 1;
      data.logprobs[8] = sum;
      data.logprobs[10] = sum - 30;
      const ObjectiveRun run = run_objective(*objective, data);
      const ObjectiveTruth truth = objective_truth(*objective, data);
      EXPECT_EQ(run.loss, 0);
      for (const std::int64_t row : {0, 2, 5, 8, 10}) EXPECT_EQ(run.gradient[row], 0) << row;
      EXPECT_EQ(run.metrics.at("accuracy").amount, 0.5);
      for (const Enclosure& known : {truth.loss, truth.grad_logprob[0], truth.grad_logprob[10]}) {
        EXPECT_TRUE(known.is_exact() && known.value == 0);
      }
      EXPECT_TRUE(truth.metrics.at("accuracy").amount.contains(0.5));
      // In the other order the loss grows without a bound, and is a number all the same.
      data.logprobs[8] = sum - 60;
      EXPECT_GT(run_objective(*objective, data).loss, 1e38);
      EXPECT_GT(objective_truth(*objective, data).loss.value, 1e38);
      EXPECT_LT(objective_truth(*objective, data).grad_logprob[8].value, -1e38);
    }
  }
}

TEST(PairObjectives, NeedWholePairsAndTheirInputs) {
  constexpr auto kRef = TokenInput::reference_policy_logprobs;
  const ObjectiveNeeds cpo = objective_of({"cpo", {}})->needs();
  const ObjectiveNeeds kto = objective_of({"kto", {}})->needs();
  EXPECT_FALSE(cpo.needs(kRef));
  EXPECT_EQ(cpo.unit_of(8), 2);
  EXPECT_TRUE(kto.needs(kRef) && kto.rewards);
  EXPECT_EQ(kto.unit_of(8), 8);
  EXPECT_EQ(objective_of(unpaired()[2])->needs().unit_of(8), 2);
}

std::string refusal_of(const ObjectiveSpec& spec) {
  try {
    objective_of(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "none";
}

TEST(PairObjectives, RefuseOptionsThatDoNotFit) {
  const auto refused = [](const std::string& kind, const std::string& option,
                          const std::string& value) {
    return refusal_of({kind, {{option, value}}});
  };
  EXPECT_EQ(refused("cpo", "beta", "0"), "cpo: beta must be above 0");
  EXPECT_EQ(refused("cpo", "cpo_alpha", "-1"), "cpo: cpo_alpha must not be negative");
  EXPECT_EQ(refused("cpo", "alpha", "-1"), "cpo: alpha must not be negative");
  EXPECT_EQ(refused("cpo", "label_smoothing", "0.5"), "cpo: label_smoothing must be in [0, 0.5)");
  EXPECT_EQ(refused("cpo", "simpo_gamma", "1"), "cpo: simpo_gamma = 1 needs loss_type = \"simpo\"");
  EXPECT_EQ(refusal_of({"cpo", {{"loss_type", "\"ipo\""}, {"label_smoothing", "0.1"}}}),
            "cpo: loss_type = \"ipo\" excludes a label_smoothing above 0");
  EXPECT_EQ(refused("orpo", "beta", "-1"), "orpo: beta must not be negative");
  EXPECT_EQ(refused("kto", "beta", "0"), "kto: beta must be above 0");
  EXPECT_EQ(refused("kto", "desirable_weight", "-1"), "kto: desirable_weight must not be negative");
}

}  // namespace
}  // namespace lossgrid
