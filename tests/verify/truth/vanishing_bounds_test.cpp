// SPDX-License-Identifier: Apache-2.0
// Bounds of gradients at numbers that may vanish: the largest element that a right implementation
// may write as 0 is within its bound, one that is 1e-4 larger is not.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "harness/verify/checks/gradient_columns.h"
#include "harness/verify/truth/input_column.h"
#include "harness/verify/truth/vanishing.h"

namespace lossgrid {
namespace {

/// A row of two logits, of which the other one has the probability p.
struct VanishingRow {
  VanishingRow(double p, double g)
      : logits{0.0, std::log(p / (1 - p))},
        row(row_truth(logits, 0)),
        gradient(row, RowGradientTruth{g}),
        bound(row, g, DType::f32, 12) {}

  std::vector<double> logits;
  RowTruth row;
  LogitGradient gradient;
  GradientBound bound;
};

/// True if 0 is within the bound of an element of size `element` by x.
bool may_vanish(double element, double g, double slope) {
  const VanishingRow row(element / std::abs(g) / slope, g);
  InputTransform transform;
  transform.row.factor = slope;
  const double p = std::exp(row.logits[1]) / row.row.sum;
  const InputColumn column =
      input_column(row.bound, row.gradient, transform, row.logits[1], p, false);
  return std::abs(column.want) <= column.bound();
}

TEST(VanishingBounds, RoundingsBeforehandAddUp) {
  for (const double slope : {1.0, 0.25, 4.0, 100.0}) {
    for (const double g : {0.5, 1e-3, -1.0, 8.0}) {
      // Below 2 f: the probability, its product with g, or the result.
      const double largest = kVanishingF32 * std::max({1.0, slope, slope * std::abs(g)});
      // An exponential at a distance of 87 is off by 5e-6 of itself.
      EXPECT_TRUE(may_vanish(largest * (1 + 5e-6), g, slope)) << slope << " " << g;
      EXPECT_FALSE(may_vanish(largest * (1 + 1e-4), g, slope)) << slope << " " << g;
    }
  }
}

TEST(VanishingBounds, AreThoseOfWholeVectors) {
  for (const double g : {0.5, -1.0, 8.0}) {
    for (const double excess : {5e-6, 1e-4}) {
      const double p = kVanishingF32 * std::max(1.0, 1 / std::abs(g)) * (1 + excess);
      const VanishingRow row(p, g);
      const std::vector<double> logits(17, row.logits[1]);
      const std::vector<float> zeros(17, 0.0f);
      GradientColumnSums sums;
      std::vector<std::int32_t> suspects;
      compare_columns({row.bound, row.row.max, row.row.sum, g, logits, zeros.data(), DType::f32},
                      1.0, sums, suspects);
      EXPECT_EQ(suspects.empty(), excess < 1e-5) << g << " " << excess;
    }
  }
}

TEST(VanishingBounds, NothingVanishesWhereNothingHasAGradient) {
  EXPECT_EQ(floor_by_x(0, kVanishingF32), 0);
  EXPECT_EQ(floor_by_x(0.25, 0), 0);
  EXPECT_EQ(floor_by_x(0.25, 2 * kVanishingF32), kVanishingF32);
  EXPECT_EQ(floor_by_x(4, 2 * kVanishingF32), 8 * kVanishingF32);
}

}  // namespace
}  // namespace lossgrid
