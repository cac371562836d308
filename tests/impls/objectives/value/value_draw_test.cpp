// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/value/value_draw.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "../problem/statistics.h"

namespace lossgrid {
namespace {

/// Values of 3000 states in eighths, with what is drawn around them.
struct DrawnStates {
  DrawnStates(const std::string& drift, double clip, double bend) {
    const ValueDraw draw(clip, bend);
    const CaseSpec spec = parse_case("head=value drift=" + drift);
    for (std::int64_t t = 0; t < 3000; ++t) {
      const double value = std::round(8 * std::sin(static_cast<double>(t))) / 8;
      const DrawnInputs drawn = draw.inputs({spec, t, 0, value});
      const double old_value = static_cast<float>(drawn[TokenInput::old_values]);
      const double clipped = std::clamp(value, old_value - clip, old_value + clip);
      const double target = static_cast<float>(drawn[TokenInput::returns]);
      const double apart = std::abs(value - target);
      const double apart_clipped = std::abs(clipped - target);
      below.push_back(value < old_value - clip ? 1 : 0);
      above.push_back(value > old_value + clip ? 1 : 0);
      at_end.push_back(std::abs(value - old_value) == clip ? 1 : 0);
      tie.push_back(value != clipped && apart == apart_clipped ? 1 : 0);
      further.push_back(apart_clipped > apart ? 1 : 0);
      far.push_back(apart > bend ? 1 : 0);
      equal.push_back(apart == 0 && value == old_value ? 1 : 0);
    }
  }

  std::vector<double> below, above, at_end, tie, further, far, equal;
};

TEST(ValueDraw, LieOnEverySideOfClipRangesAndReturns) {
  const DrawnStates near("near", 0.5, 10);
  EXPECT_NEAR(mean(near.below), 0.2, 0.05);
  EXPECT_NEAR(mean(near.above), 0.2, 0.05);
  EXPECT_NEAR(mean(near.at_end), 0.2, 0.05);
  EXPECT_GT(mean(near.tie), 0.02);
  EXPECT_GT(mean(near.further), 0.08);
  EXPECT_EQ(mean(near.far), 0);
  EXPECT_NEAR(mean(DrawnStates("far", 0.5, 10).far), 1.0 / 3, 0.05);
  EXPECT_EQ(mean(DrawnStates("equal", 0.5, 10).equal), 1);
}

TEST(ValueDraw, AtEdgesAreAtOrBesideThem) {
  const DrawnStates edge("edge", 0.5, 1.5);
  EXPECT_GT(mean(edge.at_end), 0.08);
  EXPECT_GT(mean(edge.tie), 0.02);
  EXPECT_GT(mean(edge.far), 0.02);
}

}  // namespace
}  // namespace lossgrid
