// SPDX-License-Identifier: Apache-2.0
// Comparison of a loss and metrics that are infinite in float64, as exp(x - q) of a target far
// below.
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "harness/verify/checks/output_checks.h"

namespace lossgrid {
namespace {

/// Returns the truth of a loss and of a metric that both are this number.
ObjectiveTruth truth_of(const Enclosure& number) {
  ObjectiveTruth truth;
  truth.loss = number;
  truth.metrics = {{"ratio", {Reduction::mean, number, 1}}};
  return truth;
}

std::vector<Check> checks_of(const ObjectiveTruth& truth, double got) {
  return check_result(truth, {got, {{"ratio", {Reduction::mean, got, 1}}}}, {}, 0);
}

TEST(InfiniteResults, AreThoseOfTheirIntervalWhereItHoldsFiniteOnes) {
  Enclosure number(HUGE_VAL);
  number.low = 3;
  for (const auto& [got, is_right] :
       {std::pair(3.0, true), std::pair(1e29, true), std::pair(HUGE_VAL, true),
        std::pair(2.999, false), std::pair(-HUGE_VAL, false), std::pair(std::nan(""), false)}) {
    const std::vector<Check> checks = checks_of(truth_of(number), got);
    EXPECT_FALSE(checks.empty());
    for (const Check& check : checks) {
      EXPECT_EQ(check.passed(), is_right) << check.name() << " " << got;
    }
  }
}

TEST(InfiniteResults, AreNothingElseWhereAllAreInfinite) {
  for (const Check& check : checks_of(truth_of(HUGE_VAL), HUGE_VAL)) EXPECT_TRUE(check.passed());
  for (const Check& check : checks_of(truth_of(HUGE_VAL), 1e29)) EXPECT_FALSE(check.passed());
}

}  // namespace
}  // namespace lossgrid
