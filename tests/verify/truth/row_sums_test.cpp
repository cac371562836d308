// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/truth/row_sums.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "kernel_targets.h"

namespace lossgrid {
namespace {

constexpr double kRowInf = std::numeric_limits<double>::infinity();

class RowSums : public OnEveryTarget {};

std::vector<double> random_logits(std::size_t count, double lowest) {
  const RandomStream random(7, 0);
  std::vector<double> logits(count);
  for (std::size_t k = 0; k < count; ++k) logits[k] = lowest * random.uniform(k);
  return logits;
}

TEST_P(RowSums, AreThoseOfLongDoubleForEveryLength) {
  for (std::size_t count = 0; count < 40; ++count) {
    std::vector<double> logits = random_logits(count, -30);
    if (count > 5) logits[count / 2] = -kRowInf;
    long double sum = 0;
    long double weighted = 0;
    long double squared = 0;
    long double distances = 0;
    double finite = 0;
    double smallest = kRowInf;
    double largest = -kRowInf;
    for (const double x : logits) {
      largest = std::max(largest, x);
      if (x == -kRowInf) continue;
      const long double distance = 1.5L - x;
      sum += std::exp(-distance);
      weighted += std::exp(-distance) * distance;
      squared += std::exp(-distance) * distance * distance;
      distances += distance;
      finite += 1;
      smallest = std::min(smallest, x);
    }
    const SoftmaxSums sums = softmax_sums(logits, 1.5);
    EXPECT_NEAR(sums.exponentials, static_cast<double>(sum), 1e-15 * sum);
    EXPECT_NEAR(sums.weighted, static_cast<double>(weighted), 1e-15 * weighted);
    EXPECT_NEAR(sums.squared, static_cast<double>(squared), 1e-15 * squared);
    EXPECT_NEAR(sums.distances / kDistanceScale, static_cast<double>(distances), 1e-15 * distances);
    EXPECT_EQ(sums.finite, finite);
    EXPECT_EQ(sums.smallest, smallest);
    EXPECT_EQ(largest_logit(logits), largest);
  }
}

TEST_P(RowSums, ExpIsAtMostTwoUlpOff) {
  std::vector<double> x = random_logits(100'000, -707.9);
  for (const double more : {0.0, -1e-300, -0.34657359027997264, -0.34657359027997270, -707.99}) {
    x.push_back(more);
  }
  std::vector<double> e(x.size());
  softmax_probabilities(x, 0, 1, e);
  double worst = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const long double want = std::exp(static_cast<long double>(x[k]));
    const double rounded = static_cast<double>(want);
    const double ulp = std::nextafter(rounded, kRowInf) - rounded;
    worst = std::max(worst, static_cast<double>(std::abs(e[k] - want) / ulp));
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_GT(worst, 0.4);  // of a correctly rounded one it would be 0.5
}

TEST_P(RowSums, ExponentialsThatAreTooSmallAreZero) {
  const std::vector<double> logits{-708.5,   -745,   -1e4, -1e30, -1.7e308,
                                   -kRowInf, -708.5, 0,    -708.5};
  std::vector<double> p(logits.size());
  softmax_probabilities(logits, 0, 1, p);
  EXPECT_EQ(p, (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 1, 0}));
  const SoftmaxSums sums = softmax_sums(logits, 0);
  EXPECT_EQ(sums.exponentials, 1);
  EXPECT_EQ(sums.weighted, 0);
  EXPECT_EQ(sums.squared, 0);
  EXPECT_EQ(sums.finite, 8);  // distances have no such limit
  EXPECT_DOUBLE_EQ(sums.distances / kDistanceScale, 1.7e308);
  EXPECT_EQ(sums.smallest, -1.7e308);
}

TEST_P(RowSums, ProbabilitiesMayTakeThePlaceOfLogits) {
  std::vector<double> p = random_logits(19, -3);
  const std::vector<double> logits = p;
  softmax_probabilities(p, 0.25, 2, p);
  for (std::size_t k = 0; k < p.size(); ++k) {
    EXPECT_DOUBLE_EQ(p[k], std::exp(logits[k] - 0.25) / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RowSums, testing::ValuesIn(targets_here()), target_name);

}  // namespace
}  // namespace lossgrid
