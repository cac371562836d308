// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/metric.h"

#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kReductions = {Reduction::count, Reduction::sum, Reduction::mean,
                                    Reduction::min,   Reduction::max, Reduction::global};

Metric part(Reduction reduction, double amount, double count) {
  return {reduction, amount, count};
}

TEST(Metric, CountAddsUp) {
  const Metric both = joined(part(Reduction::count, 4, 1), part(Reduction::count, 5, 1));
  EXPECT_EQ(both, part(Reduction::count, 9, 2));
  EXPECT_EQ(both.value(), 9);
}

TEST(Metric, CountOfNothingIsZeroAndNotMissing) {
  EXPECT_EQ(part(Reduction::count, 0, 0).value(), 0);
}

TEST(Metric, SumAddsUp) {
  const Metric both = joined(part(Reduction::sum, 0.25, 1), part(Reduction::sum, -1.5, 1));
  EXPECT_EQ(both, part(Reduction::sum, -1.25, 2));
  EXPECT_EQ(both.value(), -1.25);
}

TEST(Metric, MeanIsOfAllElementsAndNotOfTheParts) {
  const Metric both = joined(part(Reduction::mean, 2, 2), part(Reduction::mean, 18, 3));
  EXPECT_EQ(both, part(Reduction::mean, 20, 5));
  EXPECT_EQ(both.value(), 4);  // the mean of the parts' means would be 3.5
}

TEST(Metric, MinAndMaxAreThoseOfTheParts) {
  for (const bool swapped : {false, true}) {
    const auto join = [&](Reduction reduction) {
      const Metric a = part(reduction, -3, 2);
      const Metric b = part(reduction, 7, 3);
      return swapped ? joined(b, a) : joined(a, b);
    };
    EXPECT_EQ(join(Reduction::min), part(Reduction::min, -3, 5));
    EXPECT_EQ(join(Reduction::min).value(), -3);
    EXPECT_EQ(join(Reduction::max), part(Reduction::max, 7, 5));
    EXPECT_EQ(join(Reduction::max).value(), 7);
  }
}

TEST(Metric, APartWithoutElementsTakesNoPartInExtrema) {
  for (const double amount : {0.0, kNaN, std::numeric_limits<double>::infinity()}) {
    const Metric none_min = part(Reduction::min, amount, 0);
    const Metric none_max = part(Reduction::max, -amount, 0);
    EXPECT_EQ(joined(none_min, part(Reduction::min, 5, 1)).value(), 5);
    EXPECT_EQ(joined(part(Reduction::min, 5, 1), none_min).value(), 5);
    EXPECT_EQ(joined(none_max, part(Reduction::max, -5, 1)).value(), -5);
    EXPECT_EQ(joined(part(Reduction::max, -5, 1), none_max).value(), -5);
    EXPECT_FALSE(joined(none_min, none_min).value());
  }
}

TEST(Metric, HasNoValueWithoutElements) {
  for (const Reduction reduction : kReductions) {
    EXPECT_EQ(part(reduction, 1, 0).value().has_value(), reduction == Reduction::count)
        << name(reduction);
    EXPECT_TRUE(part(reduction, 1, 1).value().has_value()) << name(reduction);
  }
}

TEST(Metric, ANaNOfAPartShowsInTheWhole) {
  for (const Reduction reduction : kReductions) {
    EXPECT_TRUE(std::isnan(joined(part(reduction, kNaN, 1), part(reduction, 1, 1)).amount))
        << name(reduction);
    EXPECT_TRUE(std::isnan(joined(part(reduction, 1, 1), part(reduction, kNaN, 1)).amount))
        << name(reduction);
  }
}

TEST(Metric, GlobalIsTheCommonValueOfAllPartsOrNaN) {
  const Metric both = joined(part(Reduction::global, 26, 1), part(Reduction::global, 26, 1));
  EXPECT_EQ(both.value(), 26);
  const Metric apart = joined(part(Reduction::global, 26, 1), part(Reduction::global, 25, 1));
  ASSERT_TRUE(apart.value());
  EXPECT_TRUE(std::isnan(*apart.value()));
  // It stays so when a third part agrees with one of them.
  EXPECT_TRUE(std::isnan(joined(apart, part(Reduction::global, 26, 1)).amount));
}

TEST(Metric, DifferentReductionsGiveNaN) {
  for (const Reduction a : kReductions) {
    for (const Reduction b : kReductions) {
      EXPECT_EQ(std::isnan(joined(part(a, 2, 1), part(b, 2, 1)).amount), a != b)
          << name(a) << " " << name(b);
    }
  }
}

TEST(Metric, JoinsByNameAndTakesOverWhatOneSideHas) {
  Metrics into = {{"both", part(Reduction::sum, 1, 1)}, {"here", part(Reduction::count, 2, 1)}};
  join_metrics(into,
               {{"both", part(Reduction::sum, 10, 1)}, {"there", part(Reduction::min, 3, 4)}});
  const Metrics expected = {{"both", part(Reduction::sum, 11, 2)},
                            {"here", part(Reduction::count, 2, 1)},
                            {"there", part(Reduction::min, 3, 4)}};
  EXPECT_EQ(into, expected);
}

TEST(Metric, NamesAreThoseOfReports) {
  EXPECT_EQ(name(Reduction::count), "count");
  EXPECT_EQ(name(Reduction::sum), "sum");
  EXPECT_EQ(name(Reduction::mean), "mean");
  EXPECT_EQ(name(Reduction::min), "min");
  EXPECT_EQ(name(Reduction::max), "max");
  EXPECT_EQ(name(Reduction::global), "global");
}

}  // namespace
}  // namespace lossgrid
