// SPDX-License-Identifier: Apache-2.0
// The map of logits to those of the softmax: values by hand, its slope, the errors that float32 may
// make, and problems of cases whose logits are transformed.
#include "harness/problem/values/logit_transform.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/dtype.h"
#include "harness/problem/batch/partition.h"
#include "harness/problem/batch/problem.h"

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Problem problem_of(const std::string& text) {
  return make_problem(parse_case(text));
}

std::vector<double> read_row(const LogitsSource& logits, std::int64_t token, std::int64_t vocab) {
  std::vector<double> row(static_cast<std::size_t>(vocab));
  logits.read(token, 0, std::span<double>(row));
  return row;
}

TEST(LogitTransform, WorkedOutByHand) {
  // s = 2, c = 30, T = 0.5, T_i = 4: z = 15 tanh(x / 15).
  const TrueRowTransform capped = row_transform({2, 30, 0.5, true}, 4);
  EXPECT_DOUBLE_EQ(capped.factor, 1);
  EXPECT_DOUBLE_EQ(capped.limit, 15);
  EXPECT_DOUBLE_EQ(capped.apply(15), 15 * std::tanh(1.0));
  EXPECT_DOUBLE_EQ(capped.apply(-1e30), -15);
  EXPECT_DOUBLE_EQ(capped.slope(0), 1);
  EXPECT_DOUBLE_EQ(capped.slope(15), 0);
  const TrueRowTransform linear = row_transform({3, 0, 0.75, false}, 1);
  EXPECT_DOUBLE_EQ(linear.apply(5), 20);
  EXPECT_DOUBLE_EQ(linear.slope(20), 4);
}

TEST(LogitTransform, NumbersThatAreNotFiniteStay) {
  for (const LogitTransform& transform : {LogitTransform{1, 30, 1, false}, {2, 0, 1, false}}) {
    const TrueRowTransform row = row_transform(transform, 1);
    EXPECT_EQ(row.apply(-kInfinity), -kInfinity);
    EXPECT_EQ(row.apply(kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(row.apply(std::nan(""))));
  }
}

/// Denormal logits, which kernels may read as 0, and numbers on the way that vanish.
TEST(LogitTransform, CountsVanishingNumbersAsErrors) {
  constexpr double kTiny = std::numeric_limits<float>::min();
  const auto error_of = [](const std::string& keys) {
    const Problem problem = problem_of("lens=3 vocab=5 values=denormal " + keys);
    std::vector<double> errors(5);
    problem.logits->read_errors(0, 0, errors);
    return errors[4] / kTiny;
  };
  // x just below f, read as 0, is 100 f of z, and z itself may vanish.
  EXPECT_GE(error_of("temperature=0.01"), 100 + 1);
  EXPECT_LE(error_of("temperature=0.01"), 2 * 100 + 1);
  EXPECT_GE(error_of("logit_scale=8 temperature=2"), 4);
  // s x below f, divided by T.
  EXPECT_GE(error_of("logit_scale=0.01 temperature=0.01"), 100);
  // s x / c below f, multiplied by c / T.
  EXPECT_GE(error_of("logit_softcap=30 temperature=0.5"), 60);
  EXPECT_LE(error_of("logit_softcap=30 temperature=0.5"), 60 + 2 + 2 + 1 + 1e-9);
  EXPECT_EQ(error_of(""), 0);  // given logits, as they are
}

TEST(LogitTransform, SlopeIsThatOfFiniteDifferences) {
  const TrueRowTransform row = row_transform({1.5, 20, 0.7, false}, 1.25);
  for (const double x : {-60.0, -9.0, -0.1, 0.0, 2.0, 13.0, 40.0}) {
    const double step = 1e-5;
    const double numeric = (row.apply(x + step) - row.apply(x - step)) / (2 * step);
    EXPECT_NEAR(row.slope(row.apply(x)), numeric, 1e-8) << x;
  }
}

/// A plain float32 computation stays within the declared errors of z and of the slope, and uses a
/// good part of them; one that takes the tanh in bf16 does not.
TEST(LogitTransform, ErrorsHoldFloat32AndNotBf16) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const LogitTransform transform{1.5f, 30, 0.7f, false};
  const TrueRowTransform exact = row_transform(transform, 1);
  double most = 0;
  double most_of_slope = 0;
  double most_in_bf16 = 0;
  for (int k = 0; k < 20000; ++k) {
    const float x = 30 * normal(random);
    const double want = exact.apply(x);
    const double allowed = transform_error(transform) * std::abs(want);
    const float tanh = std::tanh(1.5f * x / 30.0f);
    const float z = 30.0f * tanh / 0.7f;
    most = std::max(most, std::abs(z - want) / allowed);
    const float z16 = 30.0f * static_cast<float>(bf16(tanh)) / 0.7f;
    most_in_bf16 = std::max(most_in_bf16, std::abs(z16 - want) / allowed);
    const float t = z / (30.0f / 0.7f);
    const float slope = (1.5f / 0.7f) * (1 - t * t);
    most_of_slope = std::max(
        most_of_slope, std::abs(slope - exact.slope(want)) / exact.slope_error(want, allowed));
  }
  EXPECT_LT(most, 1);
  EXPECT_GT(most, 0.25);
  EXPECT_LT(most_of_slope, 1);
  EXPECT_GT(most_of_slope, 0.1);
  EXPECT_GT(most_in_bf16, 100);
}

TEST(LogitTransform, ActsOnRowsAndLeavesTheGivenLogits) {
  const std::string shape = "lens=5+4 vocab=7 mask=all";
  const Problem plain = problem_of(shape);
  const Problem capped = problem_of(shape + " logit_softcap=2 temperature=0.5");
  EXPECT_EQ(plain.untransformed, nullptr);
  ASSERT_NE(capped.untransformed, nullptr);
  EXPECT_FALSE(capped.logits->given());
  EXPECT_TRUE(capped.given_logits().given());
  const std::vector<double> x = read_row(*plain.logits, 3, 7);
  EXPECT_EQ(read_row(capped.given_logits(), 3, 7), x);
  const std::vector<double> z = read_row(*capped.logits, 3, 7);
  for (std::size_t v = 0; v < 7; ++v) EXPECT_DOUBLE_EQ(z[v], 4 * std::tanh(x[v] / 2)) << v;
}

/// Rows: 5 of the first sequence, 4 of the second; a part takes its own temperatures with it.
TEST(LogitTransform, BySequenceDividesTheRowsOfItsSequence) {
  const Problem problem = problem_of("lens=5+4 vocab=7 mask=all sequence_temperatures=true");
  ASSERT_EQ(problem.temperatures.size(), 2u);
  EXPECT_EQ(problem.temperatures[0], 1);
  const double own = problem.temperatures[1];
  EXPECT_NE(own, 1);
  const std::vector<double> x = read_row(problem.given_logits(), 6, 7);
  const std::vector<double> z = read_row(*problem.logits, 6, 7);
  for (std::size_t v = 0; v < 7; ++v) EXPECT_DOUBLE_EQ(z[v], x[v] / own) << v;
  EXPECT_EQ(read_row(*problem.logits, 2, 7), read_row(problem.given_logits(), 2, 7));

  const Problem part = take_part(problem, {.sequences = {1}}, 2, 1);
  EXPECT_EQ(read_row(*part.logits, 1, 7), z);
  EXPECT_EQ(part.transform_of_row(1).factor, 1 / own);
  EXPECT_EQ(pack(part, Grid{}).temperatures, std::vector<float>{problem.temperatures[1]});
}

TEST(LogitTransform, OneFactorFromHiddenStatesBelongsToTheProduct) {
  const Problem one = problem_of("lens=5 vocab=7 hidden=4 temperature=0.5 logit_scale=2");
  EXPECT_EQ(one.untransformed, nullptr);
  EXPECT_DOUBLE_EQ(one.projection->temperature, 0.25);
  EXPECT_EQ(one.transform_of_row(0).factor, 1);
  const Problem capped = problem_of("lens=5 vocab=7 hidden=4 temperature=0.5 logit_softcap=3");
  EXPECT_DOUBLE_EQ(capped.projection->temperature, 1);
  ASSERT_NE(capped.untransformed, nullptr);
  EXPECT_EQ(capped.transform_of_row(0).factor, 2);
  EXPECT_EQ(capped.transform_of_row(0).limit, 6);
}

}  // namespace
}  // namespace lossgrid
