// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/projection.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "editable_bundle.h"
#include "harness/core/error.h"
#include "harness/problem/bundle.h"

namespace lossgrid {
namespace {

using testing::ElementsAre;

/// hidden [[1, 2], [3, -1]], weight [[1, 0], [0.5, 4], [-2, 1]].
Projection small() {
  return {2, 3, 2, {1, 2, 3, -1}, {1, 0, 0.5, 4, -2, 1}, DType::f32, DType::f32};
}

TEST(Projection, LogitsAreDotProducts) {
  const auto logits = make_projected_logits(std::make_shared<const Projection>(small()));
  std::vector<double> row(3);
  logits->read(0, 0, std::span<double>(row));
  EXPECT_THAT(row, ElementsAre(1, 8.5, 0));
  logits->read(1, 0, std::span<double>(row));
  EXPECT_THAT(row, ElementsAre(3, -2.5, -7));
  std::vector<float> part(2);  // as a TP rank reads it
  logits->read(1, 1, std::span<float>(part));
  EXPECT_THAT(part, ElementsAre(-2.5f, -7.0f));
}

TEST(Projection, SumsAreRoundedToFloat32OnceAtTheEnd) {
  // In float32 each small term would be lost; their sum is not.
  Projection wide{1, 1, 257, std::vector<float>(257, 0x1p-25f), std::vector<float>(257, 1.0f)};
  wide.hidden[0] = 1;
  const auto logits = make_projected_logits(std::make_shared<const Projection>(wide));
  std::vector<double> row(1);
  logits->read(0, 0, std::span<double>(row));
  EXPECT_EQ(row[0], 1 + 0x1p-17);
  wide.hidden[1] = 0;  // 255 / 2^25 is 1/4 unit in the last place below the same number
  const auto rounded = make_projected_logits(std::make_shared<const Projection>(wide));
  rounded->read(0, 0, std::span<double>(row));
  EXPECT_EQ(row[0], static_cast<double>(static_cast<float>(1 + 255 * 0x1p-25)));
  EXPECT_NE(row[0], 1 + 255 * 0x1p-25);
}

TEST(Projection, GradientsGoBackToBothFactors) {
  const std::vector<double> dz{1, 0, 10, 0.5, -1, 2};  // [2, 3]
  EXPECT_THAT(grad_hidden(small(), dz), ElementsAre(1 - 20, 10, 0.5 - 0.5 - 4, -4 + 2));
  EXPECT_THAT(grad_weight(small(), dz), ElementsAre(1 + 1.5, 2 - 0.5, -3, 1, 10 + 6, 20 - 2));
}

TEST(Projection, GradientsOfAnotherSizeAreRefused) {
  const std::vector<double> dz(5);
  EXPECT_THROW(grad_hidden(small(), dz), Error);
  EXPECT_THROW(grad_weight(small(), dz), Error);
}

TEST(Projection, OfNoTokensHasAGradientOfZero) {
  const Projection none{0, 3, 2, {}, {1, 0, 0.5, 4, -2, 1}, DType::f32, DType::f32};
  EXPECT_TRUE(grad_hidden(none, {}).empty());
  EXPECT_EQ(grad_weight(none, {}), std::vector<double>(6, 0.0));
}

TEST(Projection, OfABundleIsTheProductOfItsTensors) {
  const Bundle bundle = read_bundle(golden_path("nll_linear"));
  const EditableBundle plain = EditableBundle::read(golden_path("nll_linear"));
  const Problem& problem = bundle.problem;
  ASSERT_NE(problem.projection, nullptr);
  EXPECT_EQ(problem.projection->tokens, 37);
  EXPECT_EQ(problem.projection->vocab, 80);
  EXPECT_EQ(problem.projection->size, 24);
  std::vector<double> row(80);
  for (std::size_t t = 0; t < 37; ++t) {
    problem.logits->read(static_cast<std::int64_t>(t), 0, std::span<double>(row));
    for (std::size_t v = 0; v < 80; ++v) {
      double sum = 0;
      for (std::size_t k = 0; k < 24; ++k) {
        sum += double{plain.get<float>("hidden", t * 24 + k)} *
               double{plain.get<float>("weight", v * 24 + k)};
      }
      EXPECT_EQ(row[v], static_cast<double>(static_cast<float>(sum)));
    }
  }
}

/// d loss / d logits of an NLL loss by its formula, taken back, against another program's result.
TEST(Projection, GradientsOfAnNllLossAreThoseOfTheGoldenBundle) {
  const Bundle bundle = read_bundle(golden_path("nll_linear"));
  const Problem& problem = bundle.problem;
  const auto targets = problem.row_targets();
  const auto valid = problem.row_valid();
  std::vector<double> dz(37 * 80, 0.0);
  for (std::size_t t = 0; t < 37; ++t) {
    if (valid[t] == 0) continue;
    const std::span<double> row(dz.data() + t * 80, 80);
    problem.logits->read(static_cast<std::int64_t>(t), 0, row);
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value);
    const auto count = static_cast<double>(problem.denominators.valid_tokens);
    for (double& value : row) value /= sum * count;
    row[static_cast<std::size_t>(targets[t])] -= 1 / count;
  }
  const std::vector<double> hidden = grad_hidden(*problem.projection, dz);
  const std::vector<double> weight = grad_weight(*problem.projection, dz);
  ASSERT_EQ(hidden.size(), bundle.expected->grad_hidden.size());
  ASSERT_EQ(weight.size(), bundle.expected->grad_weight.size());
  // The logits are rounded to float32 here, and are not there.
  for (std::size_t k = 0; k < hidden.size(); ++k) {
    EXPECT_NEAR(hidden[k], bundle.expected->grad_hidden[k], 1e-7);
  }
  for (std::size_t k = 0; k < weight.size(); ++k) {
    EXPECT_NEAR(weight[k], bundle.expected->grad_weight[k], 1e-7);
  }
}

}  // namespace
}  // namespace lossgrid
