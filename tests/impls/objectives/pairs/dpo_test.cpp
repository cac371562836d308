// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/pairs/dpo.h"

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
using ::testing::HasSubstr;

DpoOptions small_options() {
  DpoOptions options;
  options.reference_policy_kl_penalty = 0.5;
  options.preference_loss_weight = 2;
  options.sft_loss_weight = 0.25;
  return options;
}

double softplus(double x) {
  return std::log(1 + std::exp(x));
}

double metric(const ObjectiveRun& run, const std::string& name) {
  return run.metrics.at(name).value().value();
}

std::vector<DpoOptions> option_grid() {
  std::vector<DpoOptions> grid;
  for (const double sft_weight : {0.0, 0.3}) {
    for (const double preference_weight : {0.0, 1.0, 1.5}) {
      for (const bool preference_average : {false, true}) {
        for (const bool sft_average : {false, true}) {
          DpoOptions options;
          options.reference_policy_kl_penalty = preference_average ? 0.7 : 0.05;
          options.preference_loss_weight = preference_weight;
          options.sft_loss_weight = sft_weight;
          options.preference_average_log_probs = preference_average;
          options.sft_average_log_probs = sft_average;
          grid.push_back(options);
        }
      }
    }
  }
  return grid;
}

TEST(Dpo, SumsWorkedOutByHand) {
  const ObjectiveRun run = run_objective(DpoObjective<>(small_options()), small_pairs());
  const double pairs = 4;
  const double preference = (softplus(-0.5 * 1.25) + softplus(0.5 * 1.5)) / pairs;
  const double sft = (3.0 + 3.0) / pairs;
  EXPECT_DOUBLE_EQ(metric(run, "preference_loss"), preference);
  EXPECT_DOUBLE_EQ(metric(run, "sft_loss"), sft);
  EXPECT_DOUBLE_EQ(run.loss, 2 * preference + 0.25 * sft);
  EXPECT_EQ(metric(run, "loss"), run.loss);
  EXPECT_DOUBLE_EQ(metric(run, "accuracy"), 1 / pairs);
  EXPECT_DOUBLE_EQ(metric(run, "rewards_chosen_mean"), (0.75 - 1) / pairs);
  EXPECT_DOUBLE_EQ(metric(run, "rewards_rejected_mean"), (-0.5 + 0.5) / pairs);
  EXPECT_EQ(run.metrics.at("num_valid_samples"), (Metric{Reduction::count, 2, 1}));

  // d softplus(-x) / dx = -1 / (1 + exp(x)).
  const double first = 2 * 0.5 / (1 + std::exp(0.5 * 1.25)) / pairs;
  const double second = 2 * 0.5 / (1 + std::exp(-0.5 * 1.5)) / pairs;
  std::vector<float> expected(12, 0.0f);
  expected[0] = expected[2] = static_cast<float>(-first - 0.25 / pairs);
  expected[5] = static_cast<float>(first);
  expected[8] = static_cast<float>(-second - 0.25 / pairs);
  expected[10] = static_cast<float>(second);
  for (std::size_t row = 0; row < 12; ++row) EXPECT_FLOAT_EQ(run.gradient[row], expected[row]);
}

TEST(Dpo, AveragesWorkedOutByHand) {
  DpoOptions options = small_options();
  options.preference_average_log_probs = true;
  options.sft_average_log_probs = true;
  const ObjectiveRun run = run_objective(DpoObjective<>(options), small_pairs());
  const double pairs = 4;
  const double preference = (softplus(-0.5 * 0.875) + softplus(0.5 * 1.5)) / pairs;
  const double sft = (1.5 + 3.0) / pairs;
  EXPECT_DOUBLE_EQ(run.loss, 2 * preference + 0.25 * sft);
  EXPECT_DOUBLE_EQ(metric(run, "rewards_chosen_mean"), (0.375 - 1) / pairs);
  const double first = 2 * 0.5 / (1 + std::exp(0.5 * 0.875)) / pairs;
  EXPECT_FLOAT_EQ(run.gradient[2], static_cast<float>((-first - 0.25 / pairs) / 2));
  EXPECT_FLOAT_EQ(run.gradient[5], static_cast<float>(first));
}

TEST(Dpo, SftLossWithoutWeightIsZero) {
  DpoOptions options = small_options();
  options.sft_loss_weight = 0;
  EXPECT_EQ(metric(run_objective(DpoObjective<>(options), small_pairs()), "sft_loss"), 0);
}

TEST(Dpo, StepsMatchTheTruth) {
  std::map<std::string, std::int64_t> branches;
  for (const DpoOptions& options : option_grid()) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      const ObjectiveBatch data = make_objective_batch(random_pairs(seed));
      const DpoObjective<> objective(options);
      expect_steps_match_truth(objective, data);
      expect_steps_match_truth(*with_statistics(std::make_unique<DpoObjective<>>(options)), data);
      for (const auto& [name, count] : objective_truth(objective, data).branches) {
        branches[name] += count;
      }
    }
  }
  EXPECT_GT(branches["pairs_chosen_preferred"], 10);
  EXPECT_GT(branches["pairs_rejected_preferred"], 10);
  EXPECT_EQ(branches.size(), 2u);
}

TEST(Dpo, TheGradientOfTheTruthIsThatOfFiniteDifferences) {
  constexpr double kStep = 1e-4;
  const ObjectiveBatch data = make_objective_batch(random_pairs(6));
  for (const DpoOptions& options : option_grid()) {
    const DpoObjective<> objective(options);
    const std::vector<Enclosure> gradient = objective_truth(objective, data).grad_logprob;
    for (std::int64_t row = 0; row < data.rows(); ++row) {
      const auto loss_at = [&](double step) {
        std::vector<TokenTruth> rows = token_truths(data);
        rows[row].logprob = rows[row].logprob.value + step;
        return objective.truth(data.batch, rows).loss.value;
      };
      EXPECT_NEAR(gradient[row].value, (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), 1e-9);
    }
  }
}

TEST(Dpo, NoSplitOverRanksChangesIt) {
  const ObjectiveBatch data = make_objective_batch(random_pairs(6));
  for (const DpoOptions& options : option_grid()) {
    const DpoObjective<> objective(options);
    const ObjectiveTruth truth = objective_truth(objective, data);
    for (const int ranks : {2, 3, 8}) {
      EXPECT_EQ(differences(run_objective(objective, data, dealt(data, ranks, 3)), truth, 1e-12),
                "");
    }
  }
}

TEST(Dpo, IgnoresSlotsThatAreNotTrainedOn) {
  // The same batch with other numbers in every slot that is not valid.
  const ObjectiveBatch poisoned = make_objective_batch(random_pairs(3));
  ObjectiveBatch finite = poisoned;
  for (auto* numbers : {&finite.logprobs, &finite.batch.inputs[kReference]}) {
    for (float& number : *numbers) number = std::isnan(number) ? -1000 : number;
  }
  for (const DpoOptions& options : option_grid()) {
    const DpoObjective<> objective(options);
    const ObjectiveRun run = run_objective(objective, poisoned);
    EXPECT_TRUE(std::isfinite(run.loss));
    EXPECT_EQ(run_objective(objective, finite).loss, run.loss);
    EXPECT_EQ(run_objective(objective, finite).gradient, run.gradient);
    EXPECT_EQ(run_objective(objective, finite).metrics, run.metrics);
    EXPECT_TRUE(std::isfinite(objective_truth(objective, poisoned).loss.high));
  }
}

TEST(Dpo, IsZeroAndHasNoMeansWithoutValidSequences) {
  ObjectiveBatchShape shape = random_pairs(1);
  shape.sample_mask.assign(8, 0);
  const ObjectiveBatch data = make_objective_batch(shape);
  const DpoObjective<> objective(small_options());
  const ObjectiveRun run = run_objective(objective, data);
  EXPECT_EQ(run.loss, 0);
  EXPECT_THAT(run.gradient, Each(0.0f));
  for (const std::string name : {"loss", "sft_loss", "preference_loss", "num_valid_samples"}) {
    EXPECT_EQ(run.metrics.at(name).value(), 0) << name;
  }
  for (const std::string name : {"accuracy", "rewards_chosen_mean", "rewards_rejected_mean"}) {
    EXPECT_FALSE(run.metrics.at(name).value()) << name;
    EXPECT_FALSE(objective_truth(objective, data).metrics.at(name).value()) << name;
  }
  expect_steps_match_truth(objective, data);
}

TEST(Dpo, WithoutDenominatorsIsZero) {
  ObjectiveBatch data = small_pairs();
  data.batch.denominators = {0, 0, 0};
  const DpoObjective<> objective(small_options());
  const ObjectiveRun run = run_objective(objective, data);
  EXPECT_EQ(run.loss, 0);
  EXPECT_THAT(run.gradient, Each(0.0f));
  expect_steps_match_truth(objective, data);
}

TEST(Dpo, IsZeroForAPackWithoutSequences) {
  ObjectiveBatchShape shape;
  shape.lengths = {};
  const ObjectiveBatch data = make_objective_batch(shape);
  const DpoObjective<> objective(small_options());
  objective.require(data.batch);
  EXPECT_EQ(run_objective(objective, data).loss, 0);
  expect_steps_match_truth(objective, data);
}

TEST(Dpo, FarApartRewardsDoNotOverflow) {
  for (const double towards : {1.0, -1.0}) {
    ObjectiveBatch data = small_pairs();
    for (const std::size_t token : {1, 3}) {
      data.batch.inputs[kReference][token] = static_cast<float>(-towards * 4000);
    }
    const DpoObjective<> objective(small_options());
    const ObjectiveRun run = run_objective(objective, data);
    EXPECT_TRUE(std::isfinite(run.loss));
    // Gradient of the first pair: nothing more to learn, or the full step.
    EXPECT_FLOAT_EQ(run.gradient[5], towards > 0 ? 0 : 2 * 0.5f / 4);
    expect_steps_match_truth(objective, data);
  }
}

TEST(Dpo, PairsOfEqualRewardsGoEitherWayByARounding) {
  ObjectiveBatchShape shape = random_pairs(2);
  shape.drift = Drift::equal;
  const ObjectiveBatch data = make_objective_batch(shape);
  const DpoObjective<> objective(small_options());
  EXPECT_EQ(metric(run_objective(objective, data), "accuracy"), 0);
  expect_steps_match_truth(objective, data);
  for (const auto& [name, count] : objective_truth(objective, data).branches) {
    EXPECT_EQ(count, 0) << name;
  }
  // If log-probabilities may be off by a roundoff, each of the pairs may go either way.
  const Enclosure accuracy = *objective_truth(objective, data, 1).metrics.at("accuracy").value();
  EXPECT_NEAR(accuracy.low, 0, 1e-6);
  EXPECT_NEAR(accuracy.high, 4 / 5.5, 1e-6);  // 4 pairs here, 5.5 in the global batch
}

TEST(Dpo, NeedsReferencesAndWholePairs) {
  const ObjectiveNeeds needs = DpoObjective<>(DpoOptions()).needs();
  EXPECT_TRUE(needs.needs(TokenInput::reference_policy_logprobs));
  EXPECT_FALSE(needs.needs(TokenInput::prev_logprobs));
  EXPECT_FALSE(needs.rewards);
  EXPECT_EQ(needs.sequences_per_unit, 2);
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "no error";
}

TEST(Dpo, RefusesSequencesThatAreNotPairs) {
  const auto message = [](const std::vector<std::uint8_t>& sample_mask) {
    ObjectiveBatchShape shape;
    shape.lengths.assign(sample_mask.size(), 3);
    shape.sample_mask = sample_mask;
    const ObjectiveBatch data = make_objective_batch(shape);
    return message_of([&] { DpoObjective<>(DpoOptions()).require(data.batch); });
  };
  EXPECT_EQ(message({1, 1, 1}),
            "dpo: sequence 2 has no partner: sequences come in pairs of chosen, rejected");
  EXPECT_EQ(message({0, 0, 1, 1, 1, 0}),
            "dpo: sequences 4 and 5 have sample masks 1 and 0: a pair is trained on as a whole");
  EXPECT_EQ(message({0, 0, 1, 1}), "no error");
}

TEST(Dpo, ReadsItsOptions) {
  const DpoOptions read = read_dpo_options({{"reference_policy_kl_penalty", "0.5"},
                                            {"preference_loss_weight", "2"},
                                            {"sft_loss_weight", "0.25"},
                                            {"preference_average_log_probs", "true"},
                                            {"sft_average_log_probs", "true"}});
  EXPECT_EQ(read.reference_policy_kl_penalty, 0.5);
  EXPECT_EQ(read.preference_loss_weight, 2);
  EXPECT_EQ(read.sft_loss_weight, 0.25);
  EXPECT_TRUE(read.preference_average_log_probs);
  EXPECT_TRUE(read.sft_average_log_probs);

  const DpoOptions defaults = read_dpo_options({});
  EXPECT_EQ(defaults.reference_policy_kl_penalty, 0.05);
  EXPECT_EQ(defaults.preference_loss_weight, 1);
  EXPECT_EQ(defaults.sft_loss_weight, 0);
  EXPECT_FALSE(defaults.preference_average_log_probs);
  EXPECT_FALSE(defaults.sft_average_log_probs);
  EXPECT_EQ(find_objective("dpo").make({})->kind(), "dpo");
}

TEST(Dpo, RefusesWhatIsNotAnOption) {
  EXPECT_EQ(message_of([] {
              read_dpo_options({{"sft_loss_weight", "-0.1"}});
            }),
            "dpo: sft_loss_weight must not be negative");
  EXPECT_EQ(message_of([] {
              read_dpo_options({{"sft_average_log_probs", "0"}});
            }),
            "dpo: sft_average_log_probs = 0 is not true or false");
  EXPECT_THAT(message_of([] { read_dpo_options({{"beta", "0.1"}}); }), HasSubstr("beta"));
}

/// Compares every chosen sequence with the rejected one of the next pair.
struct NextPair : DpoFormulas {
  static std::int64_t partner(const PackedBatch& batch, std::int64_t i) {
    const std::int64_t sequences = batch.sequences();
    return is_chosen(i) ? (i + 3) % sequences : (i + sequences - 3) % sequences;
  }
};

/// Takes the second of a pair for the chosen one.
struct RejectedFirst : DpoFormulas {
  static bool is_chosen(std::int64_t i) { return i % 2 != 0; }
};

TEST(Dpo, WrongPairsShowInLossAndGradient) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const ObjectiveBatch data = make_objective_batch(random_pairs(seed));
    DpoOptions options;
    options.reference_policy_kl_penalty = 0.5;
    const ObjectiveTruth truth = objective_truth(DpoObjective<>(options), data);
    const std::string next_pair =
        differences(run_objective(DpoObjective<NextPair>(options), data), truth, 1e-3);
    const std::string swapped =
        differences(run_objective(DpoObjective<RejectedFirst>(options), data), truth, 1e-3);
    for (const std::string& found : {next_pair, swapped}) {
      EXPECT_THAT(found, HasSubstr("preference_loss"));
      EXPECT_THAT(found, HasSubstr("gradient["));
    }
  }
}

}  // namespace
}  // namespace lossgrid
