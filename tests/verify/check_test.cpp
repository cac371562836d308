// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/check.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Check, KeepsTheWorstElement) {
  Check check("x");
  check.add(1.0, 1.1, 0.2, {0, 0, 1});
  check.add(2.0, 2.1, 0.125, {1, 0, 2, 7});
  check.add(3.0, 3.0, 0.0, {2, 0, 3});
  EXPECT_TRUE(check.passed());
  EXPECT_EQ(check.compared(), 3);
  EXPECT_NEAR(check.ratio(), 0.8, 1e-12);
  EXPECT_EQ(check.place().token, 2);
  EXPECT_EQ(check.place().vocab_id, 7);
  EXPECT_EQ(check.got(), 2.0);
}

TEST(Check, CountsEveryElementBeyondItsBound) {
  Check check("x");
  check.add(0, 10, 1, {});  // the worst comes first: later ones must still be counted
  check.add(0, 2, 1, {});
  check.add(0, 1, 1, {});
  check.add(0, 0.5, 1, {});
  EXPECT_FALSE(check.passed());
  EXPECT_EQ(check.beyond_bound(), 2);
  EXPECT_EQ(check.ratio(), 10);
}

TEST(Check, ANanOrInfinityNeverPasses) {
  for (const double got : {kNan, kInf, -kInf}) {
    Check check("x");
    check.add(got, 1.0, 1e300, {});
    EXPECT_FALSE(check.passed()) << got;
    EXPECT_TRUE(std::isinf(check.ratio()) || check.ratio() > 1) << got;
    check.add(1.0, 1.0, 1.0, {});
    EXPECT_EQ(check.beyond_bound(), 1);
  }
}

TEST(Check, AZeroBoundWantsTheSameValue) {
  Check check("x");
  check.add(0.0, 0.0, 0.0, {});
  EXPECT_TRUE(check.passed());
  check.add(1e-300, 0.0, 0.0, {});
  EXPECT_FALSE(check.passed());
}

TEST(Check, MergesRanks) {
  Check a("x");
  a.add(0, 0.5, 1, {0});
  Check b("x");
  b.add(0, 3, 1, {1});
  b.add(kNan, 0, 1, {2});
  a.merge(b);
  EXPECT_EQ(a.compared(), 3);
  EXPECT_EQ(a.beyond_bound(), 2);
  EXPECT_EQ(a.place().rank, 2);
  Check none("x");
  a.merge(none);
  EXPECT_EQ(a.compared(), 3);
  EXPECT_EQ(a.place().rank, 2);
}

}  // namespace
}  // namespace lossgrid
