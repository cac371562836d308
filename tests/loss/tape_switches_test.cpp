// SPDX-License-Identifier: Apache-2.0
// Derivatives at switches: maxima, minima and clamps.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "harness/loss/tape.h"
#include "tape_checks.h"

namespace lossgrid {
namespace {

TEST(TapeSwitches, MaxAndMinPassToOneSideOrHoldBoth) {
  Tape tape;
  const Var x = tape.variable(Enclosure::around(1, 0.4));
  const auto expect_both = [&](const Var& y, double to_larger_x, double low, double high) {
    const double to_larger_y = 1 - to_larger_x;
    for (const Var& larger : {max(x, y), max(y, x)}) {
      expect_enclosure(derivative(tape, larger, x), to_larger_x, low, high);
      expect_enclosure(derivative(tape, larger, y), to_larger_y, 1 - high, 1 - low);
    }
    for (const Var& smaller : {min(x, y), min(y, x)}) {
      expect_enclosure(derivative(tape, smaller, x), to_larger_y, 1 - high, 1 - low);
      expect_enclosure(derivative(tape, smaller, y), to_larger_x, low, high);
    }
  };
  expect_both(tape.variable(Enclosure::around(2, 0.4)), 0, 0, 0);
  expect_both(tape.variable(Enclosure::around(1.5, 0.4)), 0, 0, 1);
  expect_both(tape.variable(Enclosure::around(1, 0.2)), 0.5, 0, 1);
  expect_both(tape.variable(Enclosure::around(1, 0.4)), 0.5, 0, 1);  // may be another number
}

TEST(TapeSwitches, OneNumberTiesWithItselfAndExactNumbersWithTheirEquals) {
  Tape tape;
  const Var x = tape.variable(Enclosure::around(1, 0.4));
  const Enclosure of_itself = derivative(tape, max(x, x), x);
  EXPECT_EQ(of_itself.value, 1);
  EXPECT_LT(roundoffs(of_itself), 5);  // the sum of two halves
  const Var y = tape.variable(2.0);
  expect_exactly(derivative(tape, max(y, 2.0), y), 0.5);
  expect_exactly(derivative(tape, min(y, tape.variable(2.0)), y), 0.5);
  EXPECT_FALSE(tape.straddles());
  // |d| near 0: either sign, and the tie of both.
  const Var d = tape.variable(Enclosure::around(0, 0x1p-24));
  const Enclosure of_size = derivative(tape, max(d, -d), d);
  EXPECT_EQ(of_size.value, 0);
  EXPECT_NEAR(of_size.low, -1, 1e-6);
  EXPECT_NEAR(of_size.high, 1, 1e-6);
  EXPECT_TRUE(tape.straddles());
}

TEST(TapeSwitches, AMaximumInsideTheClipRangeHasOneDerivative) {
  Tape tape;
  for (const double advantage : {1.3, -0.7}) {
    const Var r = tape.variable(Enclosure::around(1.05, 1e-3));
    const Var plain = -advantage * r;
    const Var clipped = -advantage * clamp(r, 0.8, 1.2);
    const Var loss = max(plain, clipped);
    expect_exactly(derivative(tape, loss, plain), 0.5);
    expect_exactly(derivative(tape, loss, clipped), 0.5);
    const Enclosure d = derivative(tape, loss, r);
    EXPECT_DOUBLE_EQ(d.value, -advantage);
    EXPECT_LT(roundoffs(d), 6);  // two products and their sum
  }
}

TEST(TapeSwitches, ClampPassesTheGradientOnItsClosedInterval) {
  Tape tape;
  const Var x = tape.variable(Enclosure::around(1, 0.25));
  expect_exactly(derivative(tape, clamp(x, 0.75, 1.25), x), 1);
  EXPECT_EQ(tape.nodes(), 1);  // x itself
  const Var outside = clamp(x, 2, 3);
  expect_exactly(outside.enclosure(), 2);
  expect_exactly(derivative(tape, outside, x), 0);
  expect_exactly(clamp(x, -1, 0.5).enclosure(), 0.5);
  const Var at_the_end = tape.variable(1.25);
  expect_exactly(derivative(tape, clamp(at_the_end, 0.75, 1.25), at_the_end), 1);
}

TEST(TapeSwitches, AStraddlingClampHoldsBothSides) {
  Tape tape;
  const Var x = tape.variable(Enclosure::around(1, 0.25));
  expect_enclosure(clamp(x, 0, 1.125).enclosure(), 1, 0.75, 1.125);
  expect_enclosure(derivative(tape, clamp(x, 0, 1.125), x), 1, 0, 1);
  expect_enclosure(derivative(tape, clamp(x, 0, 1), x), 1, 0, 1);  // at the closed end
  expect_enclosure(derivative(tape, clamp(x, 0, 0.875), x), 0, 0, 1);
  expect_enclosure(derivative(tape, clamp(x, 1.125, 2), x), 0, 0, 1);
  const Enclosure scaled = derivative(tape, 3.0 * clamp(x, 0, 0.875), x);
  EXPECT_TRUE(scaled.contains(0) && scaled.contains(3));
  EXPECT_LT(scaled.radius(), 3.001);
}

TEST(TapeSwitches, AnAbsoluteValueHasTheSignAsItsDerivative) {
  Tape tape;
  const Var positive = tape.variable(Enclosure::around(1, 0.25));
  expect_exactly(derivative(tape, abs(positive), positive), 1);
  const Var negative = tape.variable(Enclosure::around(-1, 0.25));
  expect_enclosure(abs(negative).enclosure(), 1, 0.75, 1.25);
  expect_exactly(derivative(tape, abs(negative), negative), -1);
  const Var zero = tape.variable(0.0);
  expect_exactly(derivative(tape, abs(zero), zero), 0);
  EXPECT_FALSE(tape.straddles());
}

// Not max(x, -x), whose arguments have the same interval around 0 and are not one number.
TEST(TapeSwitches, AnAbsoluteValueAroundZeroHasThreeDerivatives) {
  struct Slope {
    Side side;
    double derivative;
  };
  for (const double value : {0.0, 0.125, -0.125}) {
    for (const Slope& want :
         {Slope{Side::first, 1}, Slope{Side::second, -1}, Slope{Side::tie, 0}}) {
      Tape tape;
      tape.take_side(want.side);
      const Var x = tape.variable(Enclosure::around(value, 0.25));
      expect_exactly(derivative(tape, abs(x), x), want.derivative);
      EXPECT_TRUE(tape.straddles());
    }
    Tape tape;
    const Var x = tape.variable(Enclosure::around(value, 0.25));
    expect_enclosure(derivative(tape, abs(x), x), value > 0 ? 1 : value < 0 ? -1 : 0, -1, 1);
    expect_enclosure(abs(x).enclosure(), std::abs(value), 0, std::abs(value) + 0.25);
  }
}

TEST(TapeSwitches, ABranchNotTakenPassesNothingOn) {
  Tape tape;
  const Var x = tape.variable(800.0);
  const Var ratio = exp(x);  // infinite, and so is its derivative
  expect_exactly(derivative(tape, min(ratio, 2.0), x), 0);
  expect_exactly(derivative(tape, std::numeric_limits<double>::infinity() * min(ratio, 2.0), x), 0);
  expect_exactly(derivative(tape, clamp(ratio, 0.8, 1.2), x), 0);
}

TEST(TapeSwitches, TakesOneSideOfASwitchThatAnIntervalStraddles) {
  struct Shares {
    Side side;
    double of_clamp, of_larger, of_smaller;
  };
  for (const Shares& want : {Shares{Side::first, 1, 1, 1}, Shares{Side::second, 0, 0, 0},
                             Shares{Side::tie, 1, 0.5, 0.5}}) {
    Tape tape;
    tape.take_side(want.side);
    const Var x = tape.variable(Enclosure::around(1, 0.25));
    EXPECT_FALSE(tape.straddles());
    expect_exactly(derivative(tape, clamp(x, 0, 2), x), 1);  // no switch in reach
    EXPECT_FALSE(tape.straddles());
    expect_exactly(derivative(tape, clamp(x, 0, 1.125), x), want.of_clamp);
    EXPECT_TRUE(tape.straddles());
    const Var y = tape.variable(Enclosure::around(1, 0.125));
    expect_exactly(derivative(tape, max(x, y), x), want.of_larger);
    expect_exactly(derivative(tape, max(x, y), y), 1 - want.of_larger);
    expect_exactly(derivative(tape, min(x, 1.125), x), want.of_smaller);
  }
}

}  // namespace
}  // namespace lossgrid
