// SPDX-License-Identifier: Apache-2.0
// The factors of a framework around an objective of which all numbers are known.
#include "harness/loss/framework_scale.h"

#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

/// Draws rewards of 3.
class Threes final : public InputDraw {
 public:
  DrawnInputs inputs(const TokenToDraw&) const override { return {}; }
  double reward(const CaseSpec&, std::int64_t) const override { return 3; }
};

/// d loss / d logprob of token t is given; loss 5 and one metric of each reduction.
class Given final : public Objective {
 public:
  explicit Given(std::vector<float> gradient)
      : Objective(ObjectiveNeeds{.rewards = true}), gradient_(std::move(gradient)) {}

  std::string_view kind() const override { return "given"; }
  bool linear() const override { return true; }
  ObjectiveSizes sizes() const override { return {1, 2, 3, 4}; }
  std::shared_ptr<const InputDraw> input_draw() const override {
    return std::make_shared<Threes>();
  }

  void token_terms(const ObjectiveTokens&, const PackedBatch&, SequenceTable<const double>,
                   ObjectiveTotals<double> totals, const TokenGradients& grad) const override {
    totals.sums[0] += 5;
    for (std::size_t t = 0; t < grad.logprob.size(); ++t) grad.logprob[t] += gradient_[t];
  }
  ObjectiveResult finish(const PackedBatch&, SequenceTable<const double>,
                         SequenceTable<const double>,
                         ObjectiveTotals<const double> totals) const override {
    return {totals.sums[0],
            {{"count", {Reduction::count, 3, 1}},
             {"sum", {Reduction::sum, 0.5, 1}},
             {"mean", {Reduction::mean, 6, 4}},
             {"min", {Reduction::min, -2, 4}},
             {"max", {Reduction::max, 2, 4}},
             {"global", {Reduction::global, 9, 1}}}};
  }
  ObjectiveTruth truth(const PackedBatch&, std::span<const TokenTruth>) const override {
    ObjectiveTruth truth;
    truth.loss = 5;
    for (const float x : gradient_) truth.grad_logprob.emplace_back(x);
    truth.metrics["sum"] = {Reduction::sum, 0.5, 1};
    truth.metrics["max"] = {Reduction::max, 2.0, 1};
    truth.branches["given"] = 1;
    return truth;
  }

 private:
  std::vector<float> gradient_;
};

Framework make(const char* loss, const char* schedule, const char* gather, DpReduction reduction,
               const char* metrics = "1") {
  return {parse_scale(loss, ""), parse_scale(schedule, ""), parse_scale(gather, ""), reduction,
          parse_scale(metrics, "")};
}

std::shared_ptr<const Objective> scaled(const Framework& framework, const ScaleSizes& sizes,
                                        std::vector<float> gradient = {1, -2, 0}) {
  return with_framework(std::make_shared<Given>(std::move(gradient)), framework, sizes);
}

std::vector<float> gradient_of(const Objective& objective, std::vector<float> before) {
  double sum = 0;
  objective.token_terms({}, {}, {}, {{&sum, 1}, {}}, {before});
  EXPECT_EQ(sum, 5);
  return before;
}

TEST(FrameworkScale, MultipliesTheGradientByEveryFactor) {
  const ScaleSizes sizes{3, 5, 7};
  const std::vector<float> zeros(3, 0.0f);
  using enum DpReduction;
  const auto first = [&](const Framework& framework) {
    const std::vector<float> gradient = gradient_of(*scaled(framework, sizes), zeros);
    EXPECT_EQ(gradient[1], -2 * gradient[0]);
    EXPECT_EQ(gradient[2], 0);
    return gradient[0];
  };
  EXPECT_EQ(first(make("1", "1", "1", sum)), 1);
  EXPECT_EQ(first(make("dp*n_mb", "1", "1", sum)), 21);
  EXPECT_EQ(first(make("1", "cp/n_mb", "1", sum)), 5.0f / 7);
  EXPECT_EQ(first(make("1", "1", "cp", sum)), 5);
  EXPECT_EQ(first(make("1", "1", "1", mean)), 1.0f / 15);
  EXPECT_EQ(first(make("dp*n_mb", "cp", "cp", mean)), 35);
}

TEST(FrameworkScale, AddsToWhatIsThereAndLeavesThat) {
  const auto objective = scaled(make("cp", "1", "1", DpReduction::sum), {1, 4, 1});
  EXPECT_EQ(gradient_of(*objective, {10, 10, 10}), (std::vector<float>{14, 2, 10}));
}

TEST(FrameworkScale, FactorsThatCancelLeaveTheBits) {
  std::vector<float> gradient{1e-40f, 3e38f, -1.0f / 3};
  for (int k = 0; k < 1000; ++k) gradient.push_back(std::sin(static_cast<float>(k)) / 1000);
  const std::vector<float> zeros(gradient.size(), 0.0f);
  for (const FrameworkPreset& preset : framework_presets()) {
    if (preset.framework.net() != ScaleFactor{}) continue;
    for (const ScaleSizes& sizes : {ScaleSizes{3, 7, 5}, ScaleSizes{11, 3, 49}}) {
      const auto objective = scaled(preset.framework, sizes, gradient);
      EXPECT_EQ(gradient_of(*objective, zeros), gradient) << preset.name;
    }
  }
}

TEST(FrameworkScale, MultipliesMetricsThatAddUpAndNeverTheLoss) {
  const auto objective = scaled(make("cp", "1", "1", DpReduction::sum, "cp"), {1, 4, 1});
  const double sums[] = {5};
  const ObjectiveResult result = objective->finish({}, {}, {}, {sums, {}});
  EXPECT_EQ(result.loss, 5);
  EXPECT_EQ(result.metrics.at("count"), (Metric{Reduction::count, 12, 1}));
  EXPECT_EQ(result.metrics.at("sum"), (Metric{Reduction::sum, 2, 1}));
  EXPECT_EQ(result.metrics.at("mean").value(), 1.5);
  EXPECT_EQ(result.metrics.at("min").value(), -2);
  EXPECT_EQ(result.metrics.at("max").value(), 2);
  EXPECT_EQ(result.metrics.at("global").value(), 9);
}

TEST(FrameworkScale, TheTruthThatAnImplementationAsksForIsScaledToo) {
  const auto objective = scaled(make("cp", "dp", "1", DpReduction::sum, "cp"), {3, 4, 1});
  const ObjectiveTruth truth = objective->truth({}, {});
  EXPECT_EQ(truth.loss.value, 5);
  EXPECT_EQ(truth.grad_logprob[1].value, -24);
  EXPECT_EQ(truth.metrics.at("sum").amount.value, 2);
  EXPECT_EQ(truth.metrics.at("max").amount.value, 2);
  EXPECT_EQ(truth.branches.at("given"), 1);
}

TEST(FrameworkScale, IsTheSameObjectiveOtherwise) {
  const auto objective = scaled(Framework{}, {});
  EXPECT_EQ(objective->kind(), "given");
  EXPECT_TRUE(objective->linear());
  EXPECT_TRUE(objective->needs().rewards);
  EXPECT_EQ(objective->sizes().sequence_sums, 1);
  EXPECT_EQ(objective->sizes().maxima, 4);
  EXPECT_EQ(objective->input_draw()->reward({}, 0), 3);
}

}  // namespace
}  // namespace lossgrid
