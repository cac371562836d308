// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/enclosure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tape_checks.h"

namespace lossgrid {
namespace {

constexpr double kRoundoff = 0x1p-24;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void expect_ends(const Enclosure& a, double low, double high) {
  EXPECT_EQ(a.low, low);
  EXPECT_EQ(a.high, high);
}

// An operation on Enclosures and in float32.
using E = const Enclosure&;
using F = float;
struct Operation {
  Enclosure (*enclose)(E a, E b, E c);
  F (*in_float)(F a, F b, F c);
};

F float_log_sigmoid(F a, F, F) {
  const double x = a;
  return static_cast<F>(std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))));
}
F float_sum(F a, F b, F c) {
  return static_cast<F>(static_cast<double>(a) + b + c + a);
}

const std::array<Operation, 15> kOperations = {{
    {[](E a, E b, E) { return a + b; }, [](F a, F b, F) { return a + b; }},
    {[](E a, E b, E) { return a - b; }, [](F a, F b, F) { return a - b; }},
    {[](E a, E b, E) { return a * b; }, [](F a, F b, F) { return a * b; }},
    {[](E a, E b, E) { return a / b; }, [](F a, F b, F) { return a / b; }},
    {[](E a, E b, E c) { return a * b + c; }, [](F a, F b, F c) { return std::fma(a, b, c); }},
    {[](E a, E, E) { return -a; }, [](F a, F, F) { return -a; }},
    {[](E a, E, E) { return exp(a); }, [](F a, F, F) { return std::exp(a); }},
    {[](E a, E, E) { return log(a); }, [](F a, F, F) { return std::log(a); }},
    {[](E a, E, E) { return log_sigmoid(a); }, float_log_sigmoid},
    {[](E a, E, E) { return abs(a); }, [](F a, F, F) { return std::abs(a); }},
    {[](E a, E b, E) { return max(a, b); }, [](F a, F b, F) { return std::max(a, b); }},
    {[](E a, E b, E) { return min(a, b); }, [](F a, F b, F) { return std::min(a, b); }},
    {[](E a, E, E) { return clamp(a, 0.75, 1.25); },
     [](F a, F, F) { return std::clamp(a, 0.75F, 1.25F); }},
    {[](E a, E, E) { return is_positive(a); }, [](F a, F, F) { return a > 0 ? 1.0F : 0.0F; }},
    {[](E a, E b, E c) {
       return sum(std::vector({a, b, c, a}));
     },
     float_sum},
}};

struct Random : std::mt19937_64 {
  using std::mt19937_64::mt19937_64;
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>((*this)() >> 11) * 0x1p-53;
  }
};

// A random formula grows operand by operand; float32 computes it from the low ends of the inputs,
// from the high ends and from numbers in between.
constexpr int kSamples = 4;
struct Operand {
  Enclosure enclosure;
  std::array<float, kSamples> samples;
};

Operand random_input(Random& random) {
  const double radius = random() % 3 == 0 ? 0 : std::exp2(random.uniform(-24, -1));
  Operand made{Enclosure::around(static_cast<float>(random.uniform(-4, 4)), radius), {}};
  const Enclosure& a = made.enclosure;
  float low = static_cast<float>(a.low);
  float high = static_cast<float>(a.high);
  if (low < a.low) low = std::nextafter(low, INFINITY);
  if (high > a.high) high = std::nextafter(high, -INFINITY);
  made.samples = {low, high};
  for (int i = 2; i < kSamples; ++i) {
    made.samples[i] = std::clamp(static_cast<float>(random.uniform(a.low, a.high)), low, high);
  }
  return made;
}

Operand apply(const Operation& operation, const Operand& a, const Operand& b, const Operand& c) {
  Operand made{operation.enclose(a.enclosure, b.enclosure, c.enclosure), {}};
  for (int i = 0; i < kSamples; ++i) {
    made.samples[i] = operation.in_float(a.samples[i], b.samples[i], c.samples[i]);
  }
  return made;
}

bool any_nan(const Operand& a) {
  return std::isnan(a.enclosure.value) ||
         std::any_of(a.samples.begin(), a.samples.end(), [](float x) { return std::isnan(x); });
}

TEST(Enclosure, HoldsWhatFloat32ComputesForRandomFormulas) {
  Random random(7);
  int checked = 0;
  for (int trial = 0; trial < 10000; ++trial) {
    std::vector<Operand> operands;
    for (int i = 0; i < 4; ++i) operands.push_back(random_input(random));
    for (int i = 0; i < 12; ++i) {
      const auto pick = [&]() -> const Operand& { return operands[random() % operands.size()]; };
      const Operand made =
          apply(kOperations[random() % kOperations.size()], pick(), pick(), pick());
      if (any_nan(made)) continue;
      for (const float x : made.samples) {
        ASSERT_TRUE(made.enclosure.contains(x))
            << x << " is not in [" << made.enclosure.low << ", " << made.enclosure.high << "]";
      }
      ASSERT_TRUE(made.enclosure.contains(made.enclosure.value));
      checked += made.enclosure.radius() < 1;
      operands.push_back(made);
    }
  }
  EXPECT_GT(checked, 60000);  // most are narrow enough to mean something
}

TEST(Enclosure, AShortFormulaIsAFewRoundoffsWide) {
  const Enclosure a = 1.5, b = 2.25, c = 0.75, d = 3.0;
  EXPECT_NEAR(roundoffs(a * b), 1, 1e-6);
  EXPECT_NEAR(roundoffs(a / d), 1, 1e-6);
  EXPECT_NEAR(roundoffs(exp(a)), 2, 1e-6);
  EXPECT_NEAR(roundoffs(log(d)), 2, 1e-6);
  EXPECT_NEAR(roundoffs(log_sigmoid(a)), 2, 1e-6);
  const Enclosure formula = (a * b + c) / d;
  EXPECT_GT(roundoffs(formula), 2.5);
  EXPECT_LT(roundoffs(formula), 3.01);
}

TEST(Enclosure, AnInputsRadiusPassesThrough) {
  const Enclosure x = Enclosure::around(2, 0.125);
  const Enclosure product = x * 3.0;
  EXPECT_NEAR(product.low, 5.625, 1e-6);
  EXPECT_NEAR(product.high, 6.375, 1e-6);
  EXPECT_LT(product.low, 5.625);
  EXPECT_GT(product.high, 6.375);
  const Enclosure quotient = 1.0 / x;
  EXPECT_NEAR(quotient.low, 1 / 2.125, 1e-6);
  EXPECT_NEAR(quotient.high, 1 / 1.875, 1e-6);
  EXPECT_EQ(quotient.value, 0.5);
  EXPECT_DOUBLE_EQ(quotient.radius(), quotient.high - 0.5);
}

TEST(Enclosure, NeutralOperandsDoNotWiden) {
  const Enclosure x = Enclosure::around(0.3, 0.1);
  for (const Enclosure& same : {x + 0.0, 0.0 + x, x - 0.0, x * 1.0, 1.0 * x, x / 1.0, -(-x)}) {
    EXPECT_EQ(same.value, x.value);
    expect_ends(same, x.low, x.high);
  }
  for (const Enclosure& negated : {0.0 - x, x * -1.0, -1.0 * x, x / -1.0, -x}) {
    EXPECT_EQ(negated.value, -x.value);
    expect_ends(negated, -x.high, -x.low);
  }
  EXPECT_FALSE((Enclosure(0.25) + 0.5).is_exact());
}

TEST(Enclosure, AnExactZeroTimesAnythingFiniteStaysZero) {
  Enclosure unbounded = 2;
  unbounded.high = kInf;
  for (const Enclosure& x : {Enclosure(3), Enclosure::around(0, 5), unbounded}) {
    expect_ends(0.0 * x, 0, 0);
    expect_ends(x * 0.0, 0, 0);
  }
  EXPECT_TRUE(std::isnan((Enclosure(0) * kInf).value));  // as in float32
  expect_ends(Enclosure(0) / Enclosure(7), 0, 0);
}

TEST(Enclosure, DivisionByAnIntervalWithZeroIsUnbounded) {
  const Enclosure across = 1.0 / Enclosure::around(0.25, 0.5);
  EXPECT_EQ(across.value, 4);
  expect_ends(across, -kInf, kInf);
  expect_ends(1.0 / Enclosure::around(0.5, 0.5), -kInf, kInf);
  const Enclosure by_zero = Enclosure(-1) / 0.0;
  EXPECT_EQ(by_zero.value, -kInf);
  EXPECT_TRUE(by_zero.contains(kInf));  // the sign of a zero is not known
}

TEST(Enclosure, NoNanIsHidden) {
  const Enclosure nan = kNan;
  const Enclosure one = Enclosure::around(1, 0.5);
  const std::vector<Enclosure> terms = {one, nan};
  for (const Enclosure& x : {nan + one,
                             one + nan,
                             one - nan,
                             nan * one,
                             0.0 * nan,
                             nan / one,
                             one / nan,
                             -nan,
                             exp(nan),
                             log(nan),
                             log(Enclosure(-1)),
                             log_sigmoid(nan),
                             abs(nan),
                             max(one, nan),
                             max(nan, one),
                             min(one, nan),
                             min(nan, one),
                             clamp(nan, 0, 1),
                             is_positive(nan),
                             hull(one, nan),
                             hull(nan, one),
                             sum(terms),
                             Enclosure(kInf) - kInf,
                             rounded(nan, 1),
                             Enclosure::around(kNan, 1)}) {
    EXPECT_TRUE(std::isnan(x.value));
    EXPECT_TRUE(std::isnan(x.low));
    EXPECT_TRUE(std::isnan(x.high));
    EXPECT_TRUE(std::isnan(x.radius()));
    EXPECT_FALSE(x.contains(1));
  }
}

TEST(Enclosure, UnboundedEndsMakeNoNan) {
  Enclosure up = 2;
  up.high = kInf;
  expect_ends(up - up, -kInf, kInf);
  EXPECT_EQ((up - up).value, 0);
  const Enclosure product = up * Enclosure::around(0.5, 0.5);
  EXPECT_LE(product.low, 0);
  EXPECT_EQ(product.high, kInf);
  const Enclosure quotient = up / up;
  EXPECT_NEAR(quotient.low, 0, 1e-6);
  EXPECT_EQ(quotient.high, kInf);
  const Enclosure logarithm = log(Enclosure::around(1, 1));
  EXPECT_EQ(logarithm.low, -kInf);
  EXPECT_NEAR(logarithm.high, std::log(2), 1e-6);  // the finite end stays useful
  EXPECT_GT(logarithm.high, std::log(2));
  EXPECT_EQ(log(Enclosure::around(1, 2)).low, -kInf);
  EXPECT_EQ(log(Enclosure(0)).value, -kInf);
  expect_ends(exp(Enclosure(-kInf)), 0, 0);
  EXPECT_EQ(Enclosure(kInf).radius(), 0);
}

TEST(Enclosure, HoldsFlushedAndOverflownResults) {
  const Enclosure small = exp(Enclosure(-100));
  EXPECT_TRUE(small.contains(0));
  EXPECT_TRUE(small.contains(std::exp(-100.0F)));
  EXPECT_GE(small.low, 0);
  const Enclosure square = Enclosure(1e-20) * 1e-20;
  EXPECT_TRUE(square.contains(0));
  EXPECT_LT(square.radius(), 2e-38);
  EXPECT_TRUE(exp(Enclosure(100)).contains(kInf));
  EXPECT_EQ(exp(Enclosure(800)).value, kInf);
  EXPECT_TRUE((Enclosure(-1e30) * 1e30).contains(-kInf));
}

TEST(Enclosure, SumWidensOnceForAllTerms) {
  const std::vector<Enclosure> terms(10000, 0.1);
  const Enclosure total = sum(terms);
  EXPECT_NEAR(total.value, 1000, 1e-9);
  EXPECT_NEAR(roundoffs(total), kSumRoundoffs, 1e-3);
  std::vector<Enclosure> alternating;
  for (int i = 0; i < 1000; ++i) alternating.push_back(i % 2 == 0 ? 3.0 : -3.0);
  EXPECT_EQ(sum(alternating).value, 0);
  EXPECT_NEAR(sum(alternating).radius(), kSumRoundoffs * kRoundoff * 3000, 1e-9);
  const std::vector<Enclosure> wide(10, Enclosure::around(1, 0.25));
  EXPECT_NEAR(sum(wide).radius(), 2.5, 1e-5);
}

TEST(Enclosure, SumOfOneTermIsThatTerm) {
  expect_ends(sum(std::vector<Enclosure>{}), 0, 0);
  expect_ends(sum(std::vector<Enclosure>{0.0, 0.1, 0.0}), 0.1, 0.1);
  expect_ends(sum(std::vector<Enclosure>{0.0, Enclosure::around(0.5, 0.25)}), 0.25, 0.75);
  EXPECT_FALSE(sum(std::vector<Enclosure>{0.1, 0.2}).is_exact());
}

TEST(Enclosure, SwitchesHoldBothSides) {
  const Enclosure across = Enclosure::around(0.25, 0.5);
  EXPECT_EQ(is_positive(across).value, 1);
  expect_ends(is_positive(across), 0, 1);
  expect_ends(is_positive(Enclosure(0)), 0, 0);
  expect_ends(is_positive(Enclosure::around(1, 0.5)), 1, 1);
  expect_ends(abs(across), 0, 0.75);
  expect_ends(abs(Enclosure::around(-1, 0.5)), 0.5, 1.5);
  expect_ends(clamp(across, 0, 0.5), 0, 0.5);
  EXPECT_EQ(clamp(across, 0, 0.5).value, 0.25);
  expect_ends(clamp(Enclosure(2), 0, 0.5), 0.5, 0.5);
  const Enclosure larger = max(across, 0.5);
  EXPECT_EQ(larger.value, 0.5);
  expect_ends(larger, 0.5, 0.75);
  expect_ends(min(across, 0.5), -0.25, 0.5);
  expect_ends(hull(across, 3.0), -0.25, 3);
  EXPECT_EQ(hull(across, 3.0).value, 0.25);
}

TEST(Enclosure, LogSigmoidDoesNotOverflow) {
  const Enclosure far_below = log_sigmoid(Enclosure(-800));
  EXPECT_EQ(far_below.value, -800);
  EXPECT_NEAR(roundoffs(far_below), 2, 1e-6);
  const Enclosure far_above = log_sigmoid(Enclosure(800));
  EXPECT_EQ(far_above.value, 0);
  expect_ends(far_above, 0, 0);
  EXPECT_NEAR(log_sigmoid(Enclosure(0)).value, -std::log(2), 1e-15);
  const Enclosure wide = log_sigmoid(Enclosure::around(0, 40));
  EXPECT_NEAR(wide.low, -40, 1e-5);
  EXPECT_LE(wide.high, 0);
}

}  // namespace
}  // namespace lossgrid
