// SPDX-License-Identifier: Apache-2.0
// Logits that are the product of hidden states and a weight: their values, the errors that they may
// have where they are made in float32, and those of bundles.
#include "harness/problem/values/projection.h"

#include <cmath>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "editable_bundle.h"
#include "harness/problem/batch/partition.h"
#include "harness/problem/bundle/bundle.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;

std::shared_ptr<const LogitsSource> logits_of(const Projection& projection) {
  return make_projected_logits(std::make_shared<const Projection>(projection));
}

/// hidden [[1, 2], [3, -1]], weight [[1, 0], [0.5, 4], [-2, 1]].
Projection small() {
  return {2, 3, 2, {1, 2, 3, -1}, {1, 0, 0.5, 4, -2, 1}};
}

TEST(Projection, LogitsAreDotProducts) {
  const auto logits = logits_of(small());
  EXPECT_FALSE(logits->given());
  std::vector<double> row(3);
  logits->read(0, 0, std::span<double>(row));
  EXPECT_THAT(row, ElementsAre(1, 8.5, 0));
  logits->read(1, 0, std::span<double>(row));
  EXPECT_THAT(row, ElementsAre(3, -2.5, -7));
  std::vector<float> part(2);  // as a TP rank reads it
  logits->read(1, 1, std::span<float>(part));
  EXPECT_THAT(part, ElementsAre(-2.5f, -7.0f));
}

TEST(Projection, LogitsAreDividedByTheTemperature) {
  Projection warm = small();
  warm.temperature = 0.5;
  std::vector<double> row(3);
  logits_of(warm)->read(0, 0, std::span<double>(row));
  EXPECT_THAT(row, ElementsAre(2, 17, 0));
}

TEST(Projection, LogitsOfEverySizeAreThePlainSum) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (std::int64_t size = 1; size <= 40; ++size) {
    Projection p{
        .tokens = 1, .vocab = 5, .size = size, .hidden = {}, .weight = {}, .temperature = 0.7};
    for (std::int64_t k = 0; k < size; ++k) p.hidden.push_back(normal(random));
    for (std::int64_t k = 0; k < 5 * size; ++k) p.weight.push_back(normal(random));
    std::vector<double> row(5);
    logits_of(p)->read(0, 0, std::span<double>(row));
    for (std::int64_t v = 0; v < 5; ++v) {
      double sum = 0;
      for (std::int64_t k = 0; k < size; ++k) {
        sum += double{p.hidden[k]} * double{p.weight[v * size + k]};
      }
      EXPECT_NEAR(row[v], sum / 0.7, 1e-13) << size;
    }
  }
}

TEST(Projection, LogitsAreNotRoundedToFloat32) {
  // In float32 each small term would be lost.
  Projection wide{1, 1, 257, std::vector<float>(257, 0x1p-25f), std::vector<float>(257, 1.0f)};
  wide.hidden[0] = 1;
  wide.hidden[1] = 0;
  double logit = 0;
  logits_of(wide)->read(0, 0, std::span<double>(&logit, 1));
  EXPECT_EQ(logit, 1 + 255 * 0x1p-25);
  float narrow = 0;
  logits_of(wide)->read(0, 0, std::span<float>(&narrow, 1));
  EXPECT_EQ(narrow, static_cast<float>(1 + 255 * 0x1p-25));
}

TEST(Projection, ErrorsAreThoseOfTheNormsAndTheLogit) {
  Projection p = small();
  p.temperature = 0.25;
  std::vector<double> errors(3);
  logits_of(p)->read_errors(1, 0, errors);
  const double unit = 4 * 0x1p-24 * std::sqrt(10.0) / 0.25;
  EXPECT_DOUBLE_EQ(errors[0], unit);
  EXPECT_DOUBLE_EQ(errors[1], unit * std::sqrt(16.25));
  EXPECT_DOUBLE_EQ(errors[2], unit * std::sqrt(5.0));
  std::vector<double> last(1);
  logits_of(p)->read_errors(1, 2, last);
  EXPECT_EQ(last[0], errors[2]);
  EXPECT_DOUBLE_EQ(logits_of(p)->relative_error(), 3 * std::sqrt(2.0) * 0x1p-24);
}

TEST(Projection, ErrorsCoverProductsInFloat32) {
  const Problem problem =
      make_problem(parse_case("lens=6 mask=all vocab=200 hidden=300 temperature=0.7"));
  const Projection& p = *problem.projection;
  std::vector<double> row(200);
  std::vector<double> errors(200);
  double largest = 0;
  for (std::int64_t t = 0; t < 6; ++t) {
    problem.logits->read(t, 0, std::span<double>(row));
    problem.logits->read_errors(t, 0, errors);
    for (std::int64_t v = 0; v < 200; ++v) {
      float sum = 0;
      for (std::int64_t k = 0; k < 300; ++k) sum += p.hidden_row(t)[k] * p.weight_row(v)[k];
      const double ratio = std::abs(double{sum / 0.7f} - row[v]) / errors[v];
      largest = std::max(largest, ratio);
    }
  }
  EXPECT_LT(largest, 1);
  EXPECT_GT(largest, 0.02);  // nor is the bound far too wide
}

TEST(Projection, GivenLogitsHaveNoErrors) {
  const Problem problem = make_problem(parse_case("lens=3 vocab=5"));
  EXPECT_TRUE(problem.logits->given());
  EXPECT_EQ(problem.projection, nullptr);
  std::vector<double> errors(5, 7.0);
  problem.logits->read_errors(1, 0, errors);
  EXPECT_EQ(errors, std::vector<double>(5, 0.0));
  EXPECT_EQ(problem.logits->relative_error(), 0);
}

TEST(Projection, IsTheSameForPartsAndTheWhole) {
  const Problem problem = make_problem(parse_case("lens=5+8+0+3 vocab=19 hidden=7"));
  const Problem half = take_part(problem, {{1, 3}, false}, 1, 2);
  const Problem last = take_part(half, {{1}, false}, 1, 1);
  EXPECT_EQ(last.projection, problem.projection);
  EXPECT_FALSE(last.logits->given());
  EXPECT_EQ(last.logits->relative_error(), problem.logits->relative_error());
  std::vector<double> own(19);
  std::vector<double> whole(19);
  last.logits->read(2, 0, std::span<double>(own));
  problem.logits->read(15, 0, std::span<double>(whole));
  EXPECT_EQ(own, whole);
  last.logits->read_errors(2, 0, own);
  problem.logits->read_errors(15, 0, whole);
  EXPECT_EQ(own, whole);
  EXPECT_GT(own[0], 0);
}

TEST(Projection, IsTheProductOfTheTensorsOfABundle) {
  const Bundle bundle = read_bundle(golden_path("nll_linear"));
  const EditableBundle plain = EditableBundle::read(golden_path("nll_linear"));
  const Problem& problem = bundle.problem;
  ASSERT_NE(problem.projection, nullptr);
  EXPECT_EQ(problem.projection->tokens, 37);
  EXPECT_EQ(problem.projection->vocab, 80);
  EXPECT_EQ(problem.projection->size, 24);
  EXPECT_EQ(problem.projection->temperature, 1);
  EXPECT_EQ(problem.spec.hidden, 24);
  EXPECT_EQ(problem.spec.dtype, DType::f32);
  std::vector<double> row(80);
  for (std::size_t t = 0; t < 37; ++t) {
    problem.logits->read(static_cast<std::int64_t>(t), 0, std::span<double>(row));
    for (std::size_t v = 0; v < 80; ++v) {
      double sum = 0;
      for (std::size_t k = 0; k < 24; ++k) {
        sum += double{plain.get<float>("hidden", t * 24 + k)} *
               double{plain.get<float>("weight", v * 24 + k)};
      }
      EXPECT_NEAR(row[v], sum, 1e-14 * (1 + std::abs(sum)));
    }
  }
}

/// log-probabilities of these logits against another program's result.
TEST(Projection, HasTheLogProbabilitiesOfTheGoldenBundle) {
  const Bundle bundle = read_bundle(golden_path("nll_linear"));
  const Problem& problem = bundle.problem;
  const auto targets = problem.row_targets();
  std::vector<double> row(80);
  for (std::int64_t t = 0; t < 37; ++t) {
    if (targets[t] < 0) continue;
    problem.logits->read(t, 0, std::span<double>(row));
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit);
    EXPECT_NEAR(row[targets[t]] - std::log(sum), bundle.expected->logprobs[t + 1], 1e-12) << t;
  }
}

}  // namespace
}  // namespace lossgrid
