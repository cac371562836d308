// SPDX-License-Identifier: Apache-2.0
#include "reports/change/change_points.h"

#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::size_t> places(const std::vector<ChangePoint>& changes) {
  std::vector<std::size_t> out;
  for (const ChangePoint& change : changes) out.push_back(change.index);
  return out;
}

/// Returns values of 1 with noise of the relative size `noise`, those from `change` on times
/// `factor`.
std::vector<double> noisy(std::uint64_t seed, std::size_t count, double noise, std::size_t change,
                          double factor) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<double> normal(0, noise);
  std::vector<double> values;
  for (std::size_t k = 0; k < count; ++k) {
    values.push_back(std::exp(normal(bits)) * (k < change ? 1 : factor));
  }
  return values;
}

TEST(StudentPValue, IsThatOfTables) {
  struct Row {
    double t;
    std::size_t degrees;
    double p;
  };
  for (const Row& row : std::vector<Row>{{12.7062, 1, 0.05},
                                         {4.30265, 2, 0.05},
                                         {3.18245, 3, 0.05},
                                         {2.77645, 4, 0.05},
                                         {4.58689, 10, 0.001},
                                         {2.57058, 5, 0.05},
                                         {3.46020, 60, 0.001},
                                         {3.37342, 101, 0.00105},
                                         {0, 7, 1}}) {
    EXPECT_NEAR(student_p_value(row.t, row.degrees), row.p, 2e-5) << row.t << ' ' << row.degrees;
    EXPECT_EQ(student_p_value(-row.t, row.degrees), student_p_value(row.t, row.degrees));
  }
  EXPECT_EQ(student_p_value(std::numeric_limits<double>::infinity(), 9), 0);
}

TEST(MeanChanges, FindsStepsInOrder) {
  std::vector<double> values = noisy(1, 40, 0.01, 20, 1.2);
  const std::vector<ChangePoint> one = mean_changes(values);
  ASSERT_THAT(one, SizeIs(1));
  EXPECT_EQ(one[0].index, 20u);
  EXPECT_NEAR(one[0].ratio, 1.2, 0.02);
  EXPECT_LT(one[0].p_value, 1e-9);
  EXPECT_THAT(mean_changes(values, {.max_p_value = one[0].p_value / 2}), IsEmpty());

  const std::vector<double> more = noisy(2, 90, 0.01, 30, 0.5);  // across windows
  values.insert(values.end(), more.begin(), more.end());
  EXPECT_THAT(places(mean_changes(values)), ElementsAre(20, 40, 70));
}

TEST(MeanChanges, KeepsToItsRule) {
  EXPECT_THAT(mean_changes({}), IsEmpty());
  EXPECT_THAT(mean_changes(std::vector<double>{1, 2, 1, 2, 1, 2, 1}), IsEmpty());  // too short
  EXPECT_THAT(mean_changes(std::vector<double>(60, 0.5)), IsEmpty());
  const auto exact = [](std::size_t before, std::size_t after, double factor) {
    std::vector<double> values(before, 0.5);
    values.insert(values.end(), after, 0.5 * factor);
    return places(mean_changes(values));
  };
  EXPECT_THAT(exact(20, 20, 1.03), ElementsAre(20));
  EXPECT_THAT(exact(20, 20, 1.015), IsEmpty());  // certain, but too small
  EXPECT_THAT(exact(20, 2, 1.5), ElementsAre(20));
  EXPECT_THAT(exact(20, 1, 1.5), IsEmpty());  // may be an outlier
  EXPECT_THAT(exact(6, 9, 1.5), ElementsAre(6));
  EXPECT_THAT(exact(5, 9, 1.5), IsEmpty());
}

/// 2 % of noise. One in 70 of 4000 series of 100 runs has a false change, and 99 % of steps of 5 %
/// are found within three runs. The steps here have 3 %, at which a weaker method fails.
TEST(MeanChanges, FalseAlarmsAreRareAndStepsAreFound) {
  constexpr std::size_t kSeries = 200;
  constexpr std::size_t kRuns = 100;
  std::size_t false_alarms = 0;
  std::size_t found = 0;
  for (std::size_t seed = 0; seed < kSeries; ++seed) {
    false_alarms += mean_changes(noisy(seed, kRuns, 0.02, kRuns, 1)).size();
    const std::size_t step = 20 + seed % 60;
    for (const ChangePoint& change : mean_changes(noisy(seed, kRuns, 0.02, step, 1.03))) {
      if (change.index + 3 < step || change.index > step + 3) continue;
      ++found;
      break;
    }
  }
  EXPECT_LE(false_alarms, 5u);
  EXPECT_GE(found, kSeries * 82 / 100);
}

TEST(ChangePoints, AreEveryDifferenceOfACounter) {
  HistorySeries series;
  series.metric = "peak_bytes";
  for (const double value : {0., 0., 64., 64., 65., 64.}) series.points.push_back({.value = value});
  const std::vector<ChangePoint> changes = change_points(series);
  EXPECT_THAT(places(changes), ElementsAre(2, 4, 5));
  EXPECT_TRUE(std::isinf(changes[0].ratio));
  EXPECT_EQ(changes[1].ratio, 65. / 64);
  series.metric = "time_ratio";
  for (HistoryPoint& point : series.points) point.value = 1;
  EXPECT_THAT(change_points(series), IsEmpty());
}

}  // namespace
}  // namespace lossgrid
