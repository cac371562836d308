// SPDX-License-Identifier: Apache-2.0
// Quantiles computed by hand, and ratios of pairs, in which a shared drift cancels.
#include "harness/measure/statistics.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

using Samples = std::vector<double>;

template <typename F>
void expect_internal(F&& f) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal) << error.what();
  }
}

TEST(Quantile, InterpolatesBetweenTheTwoNearestSamples) {
  const Samples samples{40, 10, 30, 20};  // sorted: places 0, 1/3, 2/3, 1
  EXPECT_EQ(quantile(samples, 0), 10);
  EXPECT_EQ(quantile(samples, 1), 40);
  EXPECT_DOUBLE_EQ(quantile(samples, 1.0 / 3), 20);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.2), 16);  // h = 0.6
  EXPECT_DOUBLE_EQ(quantile(samples, 0.8), 34);  // h = 2.4
  EXPECT_EQ(quantile(samples, 0.5), 25);
}

TEST(Quantile, IsASampleForElevenSamples) {
  Samples samples;
  for (int k = 10; k >= 0; --k) samples.push_back(k * k);
  EXPECT_EQ(quantile(samples, 0.2), 4);
  EXPECT_EQ(median(samples), 25);
  EXPECT_EQ(quantile(samples, 0.8), 64);
}

TEST(Quantile, IsTheOnlySample) {
  for (const double p : {0.0, 0.2, 0.5, 1.0}) EXPECT_EQ(quantile(Samples{7}, p), 7);
}

TEST(Quantile, DoesNotReorderWhatItIsGiven) {
  const Samples samples{3, 1, 2};
  median(samples);
  EXPECT_EQ(samples, (Samples{3, 1, 2}));
}

TEST(Median, IsNotMovedByOneSlowSample) {
  EXPECT_EQ(median(Samples{1, 2, 3}), 2);
  EXPECT_EQ(median(Samples{1, 2, 1e9}), 2);
  EXPECT_EQ(median(Samples{1, 2, 3, 1e9}), 2.5);
}

TEST(MedianOfPairRatios, CancelsDriftThatMediansKeep) {
  // Twice as slow as the baseline, on a machine that gets slower; the baseline runs first.
  Samples samples;
  Samples baseline;
  for (int round = 0; round < 11; ++round) {
    const double speed = round < 6 ? 1.0 : 10.0;
    baseline.push_back(speed * (1 + round));
    samples.push_back(2 * speed * (1 + round));
  }
  EXPECT_EQ(median_of_pair_ratios(samples, baseline), 2);
  EXPECT_EQ(median_of_pair_ratios(baseline, samples), 0.5);
  EXPECT_EQ(median_of_pair_ratios(baseline, baseline), 1);
}

TEST(MedianOfPairRatios, IsTheMedianOfRatiosAndNotTheRatioOfMedians) {
  // Ratios 3, 1, 0.5; medians 3 and 2.
  EXPECT_EQ(median_of_pair_ratios(Samples{3, 2, 5}, Samples{1, 2, 10}), 1);
}

TEST(Statistics, RefuseWhatHasNoAnswer) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_internal([] { quantile(Samples{}, 0.5); });
  expect_internal([] { median(Samples{}); });
  expect_internal([] { quantile(Samples{1}, -0.1); });
  expect_internal([] { quantile(Samples{1}, 1.1); });
  expect_internal([=] { quantile(Samples{1}, nan); });
  expect_internal([=] { median(Samples{1, nan}); });
  expect_internal([] { median_of_pair_ratios(Samples{}, Samples{}); });
  expect_internal([] { median_of_pair_ratios(Samples{1, 2}, Samples{1}); });
  expect_internal([] { median_of_pair_ratios(Samples{1, 2}, Samples{1, 0}); });
  expect_internal([=] { median_of_pair_ratios(Samples{1, 2}, Samples{1, nan}); });
}

}  // namespace
}  // namespace lossgrid
