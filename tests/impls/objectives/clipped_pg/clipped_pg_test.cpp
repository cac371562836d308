// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/clipped_pg/clipped_pg.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clipped_pg_cases.h"
#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "objective_batch.h"

namespace lossgrid {
namespace {

/// The differences of an instantiation from the truth.
template <class Formulas = ClippedPgFormulas, class Real = double>
std::string wrong(const Options& options, const ObjectiveBatch& data, double relative = 1e-12,
                  double row_roundoffs = 0) {
  const auto objective = make_clipped_pg<Formulas, Real>(options);
  return differences(run_objective(*objective, data),
                     objective_truth(*objective, data, row_roundoffs), relative);
}

TEST(ClippedPg, StepsMatchTheTruthForAllOptions) {
  std::uint64_t seed = 0;
  for (const Options& options : all_options()) {
    const Drift drift = ++seed % 3 == 0 ? Drift::far : Drift::near;
    ASSERT_EQ(wrong(options, batch_of(seed, drift_of(options, drift))), "")
        << shown(options) << "seed " << seed;
  }
  EXPECT_GT(seed, 900u);
}

TEST(ClippedPg, EqualPoliciesMatchTheTruth) {
  for (const Options& options : all_options()) {
    ASSERT_EQ(wrong(options, batch_of(5, Drift::equal)), "") << shown(options);
  }
}

TEST(ClippedPg, AnyPartitionOfTheRowsGivesTheSame) {
  std::uint64_t seed = 100;
  for (const Options& options : all_options()) {
    if (++seed % 3 != 0) continue;
    const ObjectiveBatch data = batch_of(seed);
    const auto objective = make_clipped_pg(options);
    const Parts parts = dealt(data, 2 + static_cast<int>(seed % 4), seed);
    ASSERT_EQ(differences(run_objective(*objective, data, parts), objective_truth(*objective, data),
                          1e-12),
              "")
        << shown(options) << "seed " << seed;
  }
}

// Results in float32 must lie in the intervals; their distance from the values is not checked.
TEST(ClippedPg, Float32LiesInTheIntervalsOfTheTruth) {
  constexpr double kAnyDistance = 1e300;
  std::uint64_t seed = 200;
  for (const Options& options : all_options()) {
    const Drift drift = ++seed % 3 == 0 ? Drift::far : Drift::near;
    const auto check = [&](double row_roundoffs) {
      return wrong<ClippedPgFormulas, float>(options, batch_of(seed, drift_of(options, drift)),
                                             kAnyDistance, row_roundoffs);
    };
    ASSERT_EQ(check(0), "") << shown(options) << "seed " << seed;
    ASSERT_EQ(check(8), "") << shown(options) << "seed " << seed;
  }
}

TEST(ClippedPg, EqualPoliciesGiveTheAdvantageExactly) {
  const ObjectiveBatch data = batch_of(402, Drift::equal);
  const ObjectiveRun run = run_objective(*make_clipped_pg(both(kNoKl, kDual)), data);
  const double share = 1.0 / static_cast<double>(data.batch.denominators.valid_tokens);
  int checked = 0;
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    if (std::isnan(data.logprobs[row])) continue;
    const double advantage =
        data.batch.inputs[static_cast<std::size_t>(TokenInput::advantages)][row + 1];
    EXPECT_EQ(run.gradient[row], static_cast<float>(share * -advantage));
    checked += advantage != 0 ? 1 : 0;
  }
  EXPECT_GT(checked, 10);
}

TEST(ClippedPg, NothingComesFromSlotsThatAreNotValid) {
  const ObjectiveBatch poisoned = batch_of(403);
  ObjectiveBatch finite = poisoned;
  const auto fill = [](std::vector<float>& values) {
    for (float& value : values) value = std::isnan(value) ? 0.5f : value;
  };
  fill(finite.logprobs);
  fill(finite.batch.rewards);
  for (std::vector<float>& input : finite.batch.inputs) fill(input);
  std::size_t index = 0;
  for (const Options& options : all_options()) {
    if (++index % 7 != 0) continue;
    const auto objective = make_clipped_pg(options);
    const ObjectiveRun a = run_objective(*objective, poisoned);
    const ObjectiveRun b = run_objective(*objective, finite);
    ASSERT_TRUE(a.loss == b.loss && a.gradient == b.gradient) << shown(options);
    ASSERT_EQ(a.metrics, b.metrics) << shown(options);
    const ObjectiveTruth truth_a = objective_truth(*objective, poisoned);
    const ObjectiveTruth truth_b = objective_truth(*objective, finite);
    ASSERT_EQ(truth_a.loss.value, truth_b.loss.value);
    ASSERT_EQ(truth_a.branches, truth_b.branches);
    for (std::int64_t row = 0; row < poisoned.rows(); ++row) {
      ASSERT_EQ(truth_a.grad_logprob[row].value, truth_b.grad_logprob[row].value);
      if (!std::isnan(poisoned.logprobs[row])) continue;
      ASSERT_EQ(a.gradient[row], 0);
      ASSERT_TRUE(truth_a.grad_logprob[row].is_exact() && truth_a.grad_logprob[row].value == 0);
    }
  }
}

TEST(ClippedPg, NothingValidGivesNoLossAndNoAverages) {
  const ObjectiveBatch data = make_objective_batch(
      {.lengths = {3, 0, 1, 4}, .sample_mask = {0, 0, 0, 0}, .part_of_more = false});
  for (const Options& options : all_options()) {
    const auto objective = make_clipped_pg(options);
    const ObjectiveRun run = run_objective(*objective, data);
    ASSERT_EQ(differences(run, objective_truth(*objective, data), 0), "") << shown(options);
    ASSERT_EQ(run.loss, 0);
    ASSERT_THAT(run.gradient, testing::Each(0.0f));
    for (const auto& [name, metric] : run.metrics) {
      const bool has_value =
          name == "loss" || name == "num_valid_samples" ||
          (name == "positive_nll_loss" && !options.contains("positive_example_nll_weight"));
      ASSERT_EQ(metric.value().has_value(), has_value) << name << ' ' << shown(options);
      ASSERT_EQ(metric.amount, 0) << name;
    }
  }
}

TEST(ClippedPg, APackWithoutValidTokensOfABatchThatHasThemAddsNothing) {
  const ObjectiveBatch data = make_objective_batch({.lengths = {3, 4}, .sample_mask = {0, 0}});
  for (const Options& options : all_options()) {
    const auto objective = make_clipped_pg(options);
    const ObjectiveRun run = run_objective(*objective, data);
    ASSERT_EQ(differences(run, objective_truth(*objective, data), 0), "") << shown(options);
    ASSERT_EQ(run.metrics.at("probs_ratio").value(), 0);
    ASSERT_EQ(run.metrics.at("probs_ratio_max").value(), std::nullopt);
  }
}

struct KlWithoutScore : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> kl_weight(Real x, Real q, const ClippedPgOptions& options) {
    return {ClippedPgFormulas::kl_weight(x, q, options).value, Real(0)};
  }
};

template <int kHalves>
struct TieTakes : ClippedPgFormulas {
  template <typename Real>
  static Real larger_share(Real a, Real b) {
    return a == b ? Real(kHalves) / 2 : ClippedPgFormulas::larger_share(a, b);
  }
};

struct DualClipOfAll : ClippedPgFormulas {
  template <typename Real>
  static bool dual_clip_applies(Real /*advantage*/) {
    return true;
  }
};

struct WeightsBroadcast : ClippedPgFormulas {
  static double mean_sequence_weight(std::span<const double> weights,
                                     std::span<const std::uint8_t> mask,
                                     std::int64_t valid_sequences) {
    double sum = 0;
    for (const double weight : weights) {
      for (const std::uint8_t counts : mask) sum += weight * counts;
    }
    return sum / static_cast<double>(valid_sequences);
  }
};

struct OpenClip : ClippedPgFormulas {
  template <typename Real>
  static Slope<Real> clipped(Real rho, const ClippedPgOptions& /*options*/) {
    return {rho, Real(1)};
  }
};

// Wrong formulas fail by what they change and by nothing else, near the right policies and in the
// worst case at equal ones.
TEST(ClippedPg, WrongFormulasFail) {
  using testing::AllOf;
  using testing::HasSubstr;
  using testing::Not;
  const ObjectiveBatch data = batch_of(700);
  const auto gradient_only =
      AllOf(HasSubstr("gradient["), Not(HasSubstr("loss")), Not(HasSubstr("probs")));
  EXPECT_EQ(wrong<TieTakes<1>>({}, data), "");
  EXPECT_THAT(wrong<KlWithoutScore>(kl("\"k3\""), data), gradient_only);
  EXPECT_THAT(wrong<TieTakes<0>>(kNoKl, data), gradient_only);
  EXPECT_THAT(wrong<TieTakes<2>>(kNoKl, data), gradient_only);
  EXPECT_THAT(wrong<TieTakes<2>>(kNoKl, batch_of(700, Drift::equal)), gradient_only);
  EXPECT_THAT(wrong<TieTakes<2>>(both(kNoKl, kGspo), data), gradient_only);
  EXPECT_THAT(wrong<DualClipOfAll>(kDual, data), HasSubstr("loss"));
  EXPECT_THAT(wrong<WeightsBroadcast>(kGspo, data),
              AllOf(HasSubstr("sampling_importance_ratio"), Not(HasSubstr("gradient["))));
  EXPECT_THAT(wrong<OpenClip>({}, data),
              AllOf(HasSubstr("probs_ratio_clamped"), HasSubstr("loss")));
}

TEST(ClippedPg, IsRegistered) {
  const auto objective = find_objective("clipped_pg").make(kGspo);
  EXPECT_EQ(objective->kind(), "clipped_pg");
  EXPECT_GT(objective->sizes().sequence_sums, 0);
  EXPECT_EQ(make_clipped_pg({})->sizes().sequence_sums, 0);
  EXPECT_EQ(make_clipped_pg({})->sizes().coefficients, 0);
  EXPECT_THROW(find_objective("clipped_pg").make({{"ratio_clip", "0.2"}}), Error);
}

}  // namespace
}  // namespace lossgrid
