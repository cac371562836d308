// SPDX-License-Identifier: Apache-2.0
#include "harness/loss/tape.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "tape_checks.h"

namespace lossgrid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Vars = std::vector<Var>;

// Sums of products, a soft maximum and the shapes of preference and clipped policy losses.
const std::array<Var (*)(const Vars& x), 5> kFormulas = {
    [](const Vars& x) { return -log_sigmoid(0.3 * ((x[0] - x[1]) - (x[2] - 0.2))); },
    [](const Vars& x) { return x[0] * exp(x[1]) / x[2] - (x[0] - x[1]) - 1.0; },
    [](const Vars& x) { return log(exp(x[0]) + exp(x[1]) + exp(x[2])); },
    [](const Vars& x) {
      const Var ratio = exp(x[0] - 0.5);
      return max(-1.5 * ratio, -1.5 * clamp(ratio, 0.8, 1.2)) + min(x[1], x[2] * x[2]);
    },
    [](const Vars& x) {
      Var total = sum(Vars({x[0], x[1] * x[2], x[0] * x[0], 3.0}));
      total += clamp(x[2], -5, 5) / sum(Vars({x[1], 2.0}));
      return total * total;
    },
};

TEST(Tape, GradientsAgreeWithFiniteDifferences) {
  constexpr double kStep = 1e-5;
  for (const std::vector<double>& point : {std::vector{0.4, 0.9, 0.7}, {1.3, 0.2, -0.6}}) {
    for (std::size_t f = 0; f < kFormulas.size(); ++f) {
      Tape tape;
      Vars inputs;
      for (const double x : point) inputs.push_back(tape.variable(x));
      const std::vector<Enclosure> gradient = tape.gradient(kFormulas[f](inputs), inputs);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        Vars above(point.begin(), point.end());
        Vars below = above;
        above[i] = point[i] + kStep;
        below[i] = point[i] - kStep;
        const double rise = kFormulas[f](above).value() - kFormulas[f](below).value();
        EXPECT_NEAR(gradient[i].value, rise / (2 * kStep), 1e-8) << f << ' ' << i;
      }
    }
  }
}

TEST(Tape, ShortFormulasHaveTightGradients) {
  Tape tape;
  const Var x = tape.variable(1.7);
  const Var y = tape.variable(0.6);
  const Var output = x * exp(y);
  EXPECT_NEAR(roundoffs(output.enclosure()), 3, 1e-3);
  const std::vector<Enclosure> gradient = tape.gradient(output, std::vector{x, y});
  EXPECT_NEAR(gradient[0].value, std::exp(0.6), 1e-15);
  EXPECT_NEAR(roundoffs(gradient[0]), 2, 1e-3);  // the exponential
  EXPECT_NEAR(gradient[1].value, 1.7 * std::exp(0.6), 1e-15);
  EXPECT_NEAR(roundoffs(gradient[1]), 3, 1e-3);  // and a product
}

struct Random : std::mt19937_64 {
  using std::mt19937_64::mt19937_64;
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>((*this)() >> 11) * 0x1p-53;
  }
  // A variable whose interval has `sample` at its low end, in its middle or at its high end.
  Var variable(Tape& tape, double sample) {
    const double radius = (*this)() % 3 == 0 ? 0 : std::exp2(uniform(-28, -8));
    const double shift = radius * (static_cast<double>((*this)() % 3) - 1);
    return tape.variable(Enclosure::around(sample + shift, radius * (1 + 1e-9)));
  }
};

TEST(Tape, HoldsHandWrittenDerivativesInFloat32) {
  Random random(3);
  for (int trial = 0; trial < 3000; ++trial) {
    const float x = static_cast<float>(random.uniform(0.25, 2));
    const float y = static_cast<float>(random.uniform(0.25, 2));
    Tape tape;
    const Var in_x = random.variable(tape, x);
    const Var in_y = random.variable(tape, y);
    const auto expect_holds = [&](const Var& output, const Var& input, float hand_written) {
      const Enclosure d = derivative(tape, output, input);
      EXPECT_TRUE(d.contains(hand_written)) << trial << ' ' << hand_written << ' ' << d.value;
      EXPECT_LT(d.radius(), 4 + std::abs(d.value));
    };
    expect_holds(in_x * exp(in_y), in_x, std::exp(y));
    expect_holds(in_x * exp(in_y), in_y, x * std::exp(y));
    expect_holds(in_x / in_y, in_y, -x / (y * y));
    expect_holds(in_y * log(in_x), in_x, y / x);
    expect_holds(in_y * log_sigmoid(in_x), in_x, y / (1 + std::exp(x)));
    expect_holds(in_y * clamp(in_x, 0.75, 1.25), in_x, 0.75F <= x && x <= 1.25F ? y : 0);
    expect_holds(3.0 * max(in_x, in_y), in_x, x > y ? 3 : 0);
    expect_holds(3.0 * min(in_x, in_y), in_x, x < y ? 3 : 0);
    expect_holds(in_x * in_x * in_y, in_x, 2 * x * y);
  }
}

// An operation on a tape and, with its derivatives, as a framework in float32 has it.
using V = const Var&;
using F = float;
struct Operation {
  Var (*on_tape)(V a, V b);
  F (*in_float)(F a, F b), (*da)(F a, F b), (*db)(F a, F b);
};
struct Step {
  const Operation* operation;
  std::size_t a, b;  // operands, by the order in which they came
};

constexpr auto zero = [](F, F) { return F(0); };
constexpr auto one = [](F, F) { return F(1); };
constexpr auto minus_one = [](F, F) { return F(-1); };
constexpr auto first = [](F a, F) { return a; };
constexpr auto second = [](F, F b) { return b; };
constexpr auto over_b = [](F, F b) { return 1 / b; };
constexpr auto minus_a_over_b2 = [](F a, F b) { return -(a / b) / b; };
constexpr auto larger = [](F a, F b) { return std::max(a, b); };
constexpr auto smaller = [](F a, F b) { return std::min(a, b); };
constexpr auto first_is_larger = [](F a, F b) { return a == b ? F(0.5) : F(a > b); };
constexpr auto second_is_larger = [](F a, F b) { return first_is_larger(b, a); };
constexpr auto clamped = [](F a, F) { return std::clamp(a, -0.5F, 1.5F); };
constexpr auto is_inside = [](F a, F) { return F(-0.5F <= a && a <= 1.5F); };
constexpr auto exponential = [](F a, F) { return std::exp(a); };
constexpr auto falling_sigmoid = [](F a, F) { return 1 / (1 + std::exp(a)); };
constexpr auto float_log_sigmoid = [](F a, F) {
  const double x = a;
  return F(std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))));
};

const std::array<Operation, 9> kOperations = {{
    {[](V a, V b) { return a + b; }, [](F a, F b) { return a + b; }, one, one},
    {[](V a, V b) { return a - b; }, [](F a, F b) { return a - b; }, one, minus_one},
    {[](V a, V b) { return a * b; }, [](F a, F b) { return a * b; }, second, first},
    {[](V a, V b) { return a / b; }, [](F a, F b) { return a / b; }, over_b, minus_a_over_b2},
    {[](V a, V) { return exp(a); }, exponential, exponential, zero},
    {[](V a, V) { return log_sigmoid(a); }, float_log_sigmoid, falling_sigmoid, zero},
    {[](V a, V b) { return max(a, b); }, larger, first_is_larger, second_is_larger},
    {[](V a, V b) { return min(a, b); }, smaller, second_is_larger, first_is_larger},
    {[](V a, V) { return clamp(a, -0.5, 1.5); }, clamped, is_inside, zero},
}};

// The forward and the reverse sweep in float32, with sums in float64.
std::vector<F> float_gradient(std::vector<F> values, const std::vector<Step>& steps) {
  const std::size_t inputs = values.size();
  for (const auto& [operation, a, b] : steps) {
    values.push_back(operation->in_float(values[a], values[b]));
  }
  std::vector<double> adjoints(values.size());
  adjoints.back() = 1;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const auto& [operation, a, b] = steps[i];
    const F adjoint = static_cast<F>(adjoints[inputs + i]);
    adjoints[a] += adjoint * operation->da(values[a], values[b]);
    adjoints[b] += adjoint * operation->db(values[a], values[b]);
  }
  return std::vector<F>(adjoints.begin(), adjoints.begin() + inputs);
}

TEST(Tape, HoldsTheReverseSweepOfRandomFormulasInFloat32) {
  Random random(11);
  int narrow = 0;
  for (int trial = 0; trial < 10000; ++trial) {
    Tape tape;
    Vars vars;
    std::vector<F> samples;
    for (int i = 0; i < 3; ++i) {
      samples.push_back(static_cast<F>(random.uniform(-2, 2)));
      vars.push_back(random.variable(tape, samples[i]));
    }
    const Vars inputs = vars;
    std::vector<Step> steps;
    for (int i = 0; i < 8; ++i) {
      const Operation& operation = kOperations[random() % kOperations.size()];
      steps.push_back({&operation, random() % vars.size(), vars.size() - 1});
      vars.push_back(operation.on_tape(vars[steps[i].a], vars[steps[i].b]));
    }
    const std::vector<Enclosure> gradient = tape.gradient(vars.back(), inputs);
    const std::vector<F> in_float = float_gradient(samples, steps);
    for (int i = 0; i < 3; ++i) {
      const Enclosure& d = gradient[i];
      if (!std::isfinite(in_float[i]) || std::isnan(d.value)) continue;
      ASSERT_TRUE(d.contains(in_float[i])) << trial << ' ' << in_float[i] << ' ' << d.value;
      narrow += in_float[i] != 0 && d.radius() < 0.01 * std::abs(d.value);
    }
  }
  EXPECT_GT(narrow, 5000);
}

TEST(Tape, DetachAndScore) {
  Tape tape;
  const Var x = tape.variable(Enclosure::around(-0.4, 0.1));
  expect_enclosure(detach(x).enclosure(), -0.4, x.enclosure().low, x.enclosure().high);
  expect_exactly(derivative(tape, detach(x), x), 0);
  EXPECT_EQ(derivative(tape, x * detach(x), x).value, -0.4);
  const Var one = score(x);
  expect_exactly(one.enclosure(), 1);
  expect_exactly(derivative(tape, one, x), 1);
  expect_exactly(derivative(tape, -2.5 * score(x), x), -2.5);
}

TEST(Tape, ASumOfManyTermsWidensOnce) {
  Tape tape;
  Vars terms;
  for (int i = 0; i < 10000; ++i) terms.push_back(tape.variable(0.1));
  const Var total = sum(terms);
  EXPECT_EQ(tape.nodes(), 10001);
  EXPECT_NEAR(roundoffs(total.enclosure()), kSumRoundoffs, 1e-3);
  for (const Enclosure& d : tape.gradient(total, terms)) expect_exactly(d, 1);
}

TEST(Tape, ANodeUsedManyTimesWidensOnce) {
  Tape tape;
  const Var x = tape.variable(0.3);
  Vars terms;
  Var chain = 0.0;
  double slope = 0;
  for (int i = 1; i <= 1000; ++i) {
    terms.push_back(0.001 * i * x);
    chain += terms.back();
    slope += 0.001 * i;
  }
  for (const Var& output : {sum(terms), chain}) {
    const Enclosure d = derivative(tape, output, x);
    EXPECT_NEAR(d.value, slope, 1e-9);
    EXPECT_NEAR(roundoffs(d), kSumRoundoffs, 1e-3);
  }
  expect_exactly(derivative(tape, sum(Vars{x, 2.0}), x), 1);
  EXPECT_NEAR(roundoffs(derivative(tape, sum(Vars{x, x}), x)), kSumRoundoffs, 1e-3);
}

TEST(Tape, ConstantsStayOffTheTape) {
  Tape tape;
  const Var x = tape.variable(2.0);
  const Var three = sum(Vars{Var(1.0), exp(Var(0.0)), score(Var(9.0))});
  const Var four = max(three, 1.0) + log(clamp(three, 0, 1)) - min(three, -1.0);
  EXPECT_NEAR(four.value(), 4, 1e-15);
  EXPECT_EQ(tape.nodes(), 1);
  const std::vector<Enclosure> gradient = tape.gradient(four, Vars{x, three, 1.0});
  ASSERT_EQ(gradient.size(), 3U);
  for (const Enclosure& d : gradient) expect_exactly(d, 0);
  EXPECT_TRUE(Tape().gradient(1.0, {}).empty());
}

TEST(Tape, GradientsFollowTheOrderOfTheInputs) {
  Tape tape;
  const Var x = tape.variable(2.0);
  const Var y = tape.variable(5.0);
  const Var product = x * y;
  const Var later = x * y;
  const auto gradient = tape.gradient(product, Vars{y, later, x, 7.0, product, y});
  const std::vector<double> expected = {2, 0, 5, 0, 1, 2};
  ASSERT_EQ(gradient.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) expect_exactly(gradient[i], expected[i]);
}

TEST(Tape, VarsOfTwoTapesDoNotMix) {
  Tape tape, other;
  const Var x = tape.variable(1.0);
  const Var y = other.variable(1.0);
  const auto is_internal =
      testing::Throws<Error>(testing::Property(&Error::code, ErrorCode::internal));
  EXPECT_THAT([&] { x + y; }, is_internal);
  EXPECT_THAT([&] { max(x, y); }, is_internal);
  EXPECT_THAT([&] { sum(std::vector{x, y}); }, is_internal);
  EXPECT_THAT([&] { derivative(tape, y, x); }, is_internal);
  EXPECT_THAT([&] { derivative(tape, x, y); }, is_internal);
  EXPECT_NO_THROW(x + detach(y));
}

TEST(Tape, LogSigmoidFarOut) {
  Tape tape;
  const Var below = tape.variable(-800.0);
  const Var above = tape.variable(800.0);
  EXPECT_EQ(log_sigmoid(below).value(), -800);
  EXPECT_EQ(log_sigmoid(above).value(), 0);
  const Enclosure steep = derivative(tape, log_sigmoid(below), below);
  expect_enclosure(steep, 1, steep.low, 1);
  EXPECT_LT(roundoffs(steep), 5);
  expect_exactly(derivative(tape, log_sigmoid(above), above), 0);
  const Var wide = tape.variable(Enclosure::around(0, 1));
  const Enclosure slope = derivative(tape, log_sigmoid(wide), wide);
  EXPECT_EQ(slope.value, 0.5);
  EXPECT_NEAR(slope.low, 1 / (1 + std::exp(1)), 1e-6);
  EXPECT_NEAR(slope.high, 1 / (1 + std::exp(-1)), 1e-6);
}

TEST(Tape, DivisionByAnIntervalWithZeroIsUnbounded) {
  Tape tape;
  const Var x = tape.variable(1.0);
  const Var y = tape.variable(Enclosure::around(0.25, 0.5));
  expect_enclosure(derivative(tape, x / y, x), 4, -kInfinity, kInfinity);
  expect_enclosure(derivative(tape, x / y, y), -16, -kInfinity, kInfinity);
}

}  // namespace
}  // namespace lossgrid
