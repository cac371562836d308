// SPDX-License-Identifier: Apache-2.0
// Expectations of the enclosures of a tape.
#pragma once

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "harness/loss/tape.h"

namespace lossgrid {

inline void expect_enclosure(const Enclosure& a, double value, double low, double high) {
  EXPECT_EQ(a.value, value);
  EXPECT_EQ(a.low, low);
  EXPECT_EQ(a.high, high);
}

inline void expect_exactly(const Enclosure& a, double x) {
  expect_enclosure(a, x, x, x);
}

/// Returns the radius of `a` in float32 roundoffs of its value.
inline double roundoffs(const Enclosure& a) {
  return a.radius() / (0x1p-24 * std::abs(a.value));
}

inline Enclosure derivative(const Tape& tape, const Var& output, const Var& input) {
  return tape.gradient(output, std::vector{input})[0];
}

}  // namespace lossgrid
