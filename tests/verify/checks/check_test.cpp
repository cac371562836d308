// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/check.h"

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
  Check small("x");
  small.add(0, 0.5, 0.25, {});
  EXPECT_EQ(small.ratio(), 2);
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

TEST(Check, AnInfiniteWantIsMetByItselfAlone) {
  for (const double bound : {0.0, 1.0, kInf}) {
    Check same("x");
    same.add(-kInf, -kInf, bound, {});
    EXPECT_TRUE(same.passed());
    for (const double got : {-1e300, 0.0, kInf, kNan}) {
      Check other("x");
      other.add(got, -kInf, bound, {});
      EXPECT_FALSE(other.passed()) << got << " " << bound;
      EXPECT_EQ(other.ratio(), kInf) << got << " " << bound;
    }
  }
}

TEST(Check, AnInfiniteBoundHoldsAllButNan) {
  for (const double got : {kInf, -kInf, 1e300, 0.5}) {
    Check check("x");
    check.add(got, 1.0, kInf, {});
    EXPECT_TRUE(check.passed()) << got;
    EXPECT_EQ(check.ratio(), 0) << got;
  }
  Check nan("x");
  nan.add(kNan, 1.0, kInf, {});
  EXPECT_FALSE(nan.passed());
  Check no_bound("x");
  no_bound.add(1.5, 1.0, kNan, {});
  EXPECT_FALSE(no_bound.passed());
}

TEST(Check, BeyondTheLargestFloat32ThatNumberStandsForAll) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto passes = [](double got, double want, double bound) {
    Check check("x");
    check.add_float32(got, want, bound, {});
    return check.passed();
  };
  for (const double got : {-kInf, -kLargest}) {
    EXPECT_TRUE(passes(got, -1e308, 1e301)) << got;
    EXPECT_TRUE(passes(got, -kLargest, 1e32)) << got;
  }
  EXPECT_FALSE(passes(-3e38, -1e308, 1e301));  // within the bound, but no rounding of it
  EXPECT_FALSE(passes(kInf, -1e308, 1e301));
  EXPECT_FALSE(passes(kNan, -1e308, 1e301));
  EXPECT_TRUE(passes(3e38 + 1e31, 3e38, 1e32));
  EXPECT_FALSE(passes(kInf, 3e38, 1e32));
  for (const double sign : {1.0, -1.0}) {  // the bound reaches beyond it in one direction
    EXPECT_TRUE(passes(sign * 3.31e38, sign * 3.4e38, 1e37));
    EXPECT_FALSE(passes(sign * 3.29e38, sign * 3.4e38, 1e37));
  }
  EXPECT_FALSE(passes(-kLargest, -kInf, 1));  // -inf exactly: probability 0
  EXPECT_TRUE(passes(-kInf, -kInf, 1));
}

TEST(Check, TheWorstIsTheFirstThatIsNotEqual) {
  Check check("x");
  EXPECT_FALSE(check.has_worst());
  check.add(1, 1, 0, {.rank = 2});
  EXPECT_FALSE(check.has_worst());
  check.add(kNan, 1, 1, {.rank = 3});
  EXPECT_TRUE(check.has_worst());
  EXPECT_FALSE(check.passed());
  EXPECT_EQ(check.place().rank, 3);
  EXPECT_TRUE(std::isnan(check.got()));
}

}  // namespace
}  // namespace lossgrid
