// SPDX-License-Identifier: Apache-2.0
// Precision of a median, on samples whose order statistics are plain to see.
#include "harness/measure/stopping.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "harness/measure/statistics.h"

namespace lossgrid {
namespace {

constexpr double kZ = 2.5758293035489004;

std::vector<double> from_to(int first, int last) {
  std::vector<double> samples;
  for (int k = first; k <= last; ++k) samples.push_back(k);
  return samples;
}

TEST(StderrOfMedian, IsThatOfTheTwoOrderStatistics) {
  // n = 10: k = round(5.5 - 4.07) = 1, the extremes.
  EXPECT_DOUBLE_EQ(relative_stderr_of_median(from_to(1, 10)), 9 / (2 * kZ) / 5.5);
  // n = 25: k = round(13 - 6.44) = 7: x_19 - x_7.
  EXPECT_DOUBLE_EQ(relative_stderr_of_median(from_to(1, 25)), 12 / (2 * kZ) / 13);
  // n = 100: k = round(50.5 - 12.88) = 38: x_63 - x_38.
  EXPECT_DOUBLE_EQ(relative_stderr_of_median(from_to(1, 100)), 25 / (2 * kZ) / 50.5);
}

TEST(StderrOfMedian, TheOrderOfSamplesDoesNotMatter) {
  EXPECT_EQ(relative_stderr_of_median(std::vector<double>{5, 1, 4, 2, 3}),
            relative_stderr_of_median(from_to(1, 5)));
}

TEST(StderrOfMedian, OneSlowSampleOfManyDoesNotMoveIt) {
  std::vector<double> samples = from_to(100, 124);
  const double before = relative_stderr_of_median(samples);
  samples.back() = 1e6;
  EXPECT_EQ(relative_stderr_of_median(samples), before);
}

TEST(StderrOfMedian, IsTheKnownOneForNormalSamples) {
  // The standard error of the median of n normal samples is about 1.2533 sigma / sqrt(n).
  std::mt19937 random(1);
  std::normal_distribution<double> normal(100, 1);
  double sum = 0;
  constexpr int kTrials = 400;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> samples(50);
    for (double& x : samples) x = normal(random);
    sum += relative_stderr_of_median(samples) * median(samples);
  }
  EXPECT_NEAR(sum / kTrials, 1.2533 / std::sqrt(50.0), 0.03);
}

TEST(StderrOfMedian, IsInfiniteForTooFewSamplesAndZeroForEqualOnes) {
  EXPECT_EQ(relative_stderr_of_median({}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(relative_stderr_of_median(from_to(3, 3)), std::numeric_limits<double>::infinity());
  EXPECT_EQ(relative_stderr_of_median(std::vector<double>{3, 3, 3}), 0);
}

TEST(DistinctSamples, CountsValues) {
  EXPECT_EQ(distinct_samples({}), 0u);
  EXPECT_EQ(distinct_samples(std::vector<std::int64_t>{5, 7, 5, 5, 9, 7}), 3u);
}

}  // namespace
}  // namespace lossgrid
