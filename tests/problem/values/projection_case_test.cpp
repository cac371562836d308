// SPDX-License-Identifier: Apache-2.0
// Hidden states and weights of cases: their logits lie in the regime of the case, in float64.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "expect_error.h"
#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "problem_of.h"
#include "statistics.h"

namespace lossgrid {
namespace {

std::vector<double> logits(const Problem& problem, std::int64_t token) {
  std::vector<double> row(static_cast<std::size_t>(problem.spec.vocab));
  problem.logits->read(token, 0, std::span<double>(row));
  return row;
}

const std::vector<std::string> kProjectionRegimes{"normal",       "flat",      "peaked",
                                                  "all_negative", "offset",    "overflow",
                                                  "ties",         "edge_mass", "late_max"};

class EveryProjection : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  std::string text() const {
    return "lens=12 mask=all vocab=70 hidden=37 values=" + std::get<0>(GetParam()) +
           " dtype=" + std::get<1>(GetParam());
  }
};

TEST_P(EveryProjection, StandsInTheDtypeAndIsFinite) {
  const Problem problem = problem_of(text() + " temperature=0.7");
  const Projection& p = *problem.projection;
  EXPECT_EQ(p.tokens, 12);
  EXPECT_EQ(p.vocab, 70);
  EXPECT_EQ(p.size, 37);
  EXPECT_EQ(p.temperature, 0.7);
  EXPECT_EQ(p.hidden_dtype, problem.spec.dtype);
  EXPECT_EQ(p.weight_dtype, problem.spec.dtype);
  ASSERT_EQ(p.hidden.size(), 12u * 37);
  ASSERT_EQ(p.weight.size(), 70u * 37);
  for (const std::vector<float>* values : {&p.hidden, &p.weight}) {
    for (const float value : *values) {
      ASSERT_TRUE(std::isfinite(value));
      ASSERT_EQ(round_to(problem.spec.dtype, double{value}), double{value});
    }
  }
}

TEST_P(EveryProjection, IsAFunctionOfSeedAndPlace) {
  const Problem problem = problem_of(text());
  const Projection& p = *problem.projection;
  EXPECT_EQ(p.hidden, problem_of(text() + " poison=none").projection->hidden);
  EXPECT_NE(p.hidden, problem_of(text() + " seed=7").projection->hidden);
  EXPECT_NE(p.weight, problem_of(text() + " seed=7").projection->weight);
  EXPECT_FALSE(std::equal(p.hidden.begin(), p.hidden.begin() + 36, p.hidden.begin() + 37));
  EXPECT_FALSE(std::equal(p.weight.begin(), p.weight.begin() + 36, p.weight.begin() + 37));
  // Rows of ids and tokens are those of a smaller case, as neither V nor the target changes them.
  const std::string& values = std::get<0>(GetParam());
  if (values == "peaked" || values == "edge_mass" || values == "late_max") return;
  const Problem fewer =
      problem_of("lens=5 vocab=9 hidden=37 values=" + values + " dtype=" + std::get<1>(GetParam()));
  const Projection& q = *fewer.projection;
  EXPECT_TRUE(std::equal(q.hidden.begin(), q.hidden.end(), p.hidden.begin()));
  EXPECT_TRUE(std::equal(q.weight.begin(), q.weight.end(), p.weight.begin()));
}

INSTANTIATE_TEST_SUITE_P(Values, EveryProjection,
                         testing::Combine(testing::ValuesIn(kProjectionRegimes),
                                          testing::Values("f32", "bf16")));

TEST(ProjectionOfACase, HasTheMomentsOfItsRegimeAtEveryTemperature) {
  struct Expected {
    std::string text;
    double mean;
    double deviation;
  };
  for (const Expected& expected : std::vector<Expected>{
           {"values=normal", 0, 1},
           {"values=normal scale=3", 0, 3},
           {"values=flat scale=2", 0, 2e-3},
           {"values=all_negative scale=0.5", -200, 0.5},
           {"values=offset", 1e4, 1},
           {"values=overflow", 0, 100},
           {"values=overflow scale=0.5 dtype=bf16", 0, 50},
           {"values=all_negative dtype=bf16", -200, 1},
           {"values=offset dtype=bf16", 256, 1},
       }) {
    for (const std::string temperature : {"1", "0.25"}) {
      SCOPED_TRACE(expected.text + " temperature=" + temperature);
      const Problem problem = problem_of("lens=4 vocab=1000 hidden=200 " + expected.text +
                                         " temperature=" + temperature);
      for (std::int64_t t = 0; t < 4; ++t) {
        // One hidden state alone has a norm off by up to some 10 %.
        const std::vector<double> row = logits(problem, t);
        EXPECT_NEAR(mean(row), expected.mean, 0.1 * expected.deviation);
        EXPECT_NEAR(deviation(row), expected.deviation, 0.15 * expected.deviation);
      }
    }
  }
}

TEST(ProjectionOfACase, KeepsAShiftToThreeDigitsAtAnyTemperature) {
  for (const std::string dtype : {"f32", "bf16"}) {
    const Problem problem = problem_of(
        "lens=4 vocab=2000 hidden=64 values=all_negative temperature=0.7 dtype=" + dtype);
    EXPECT_NEAR(mean(logits(problem, 1)), -200, dtype == "f32" ? 0.2 : 0.2 + 200.0 / 256);
  }
}

TEST(ProjectionOfACase, PeaksHaveTheirProbability) {
  const std::vector<double> rest{1e-1, 1e-2, 1e-3, 1e-5, 1e-7};
  for (const std::string text :
       {"vocab=1000 hidden=512", "vocab=1000 hidden=512 dtype=bf16 temperature=0.7",
        "vocab=5000 hidden=300 temperature=3", "vocab=300 hidden=1024"}) {
    const Problem problem = problem_of("lens=11 mask=all values=peaked " + text);
    const auto targets = problem.row_targets();
    for (std::int64_t t = 0; t + 1 < 11; ++t) {
      const auto p = softmax(logits(problem, t));
      double others = 0;
      for (std::size_t v = 0; v < p.size(); ++v) {
        if (static_cast<std::int64_t>(v) != targets[t]) others += p[v];
      }
      EXPECT_GT(others, rest[t % 5] / 1.5) << text << ' ' << t;
      EXPECT_LT(others, rest[t % 5] * 1.5) << text << ' ' << t;
    }
    const auto last = softmax(logits(problem, 10));  // it predicts nothing
    EXPECT_LT(*std::max_element(last.begin(), last.end()), 0.3) << text;
  }
}

/// The distance of the nearest rows of the weight is left to chance there.
TEST(ProjectionOfACase, PeaksStandOutWhereHiddenStatesAreShort) {
  for (const std::string text : {"vocab=500 hidden=64", "vocab=80 hidden=64 dtype=bf16"}) {
    const Problem problem = problem_of("lens=41 mask=all values=peaked " + text);
    const auto targets = problem.row_targets();
    for (std::int64_t t = 0; t + 1 < 41; ++t) {
      EXPECT_GT(softmax(logits(problem, t))[targets[t]], t % 5 == 0 ? 0.8 : 0.95) << t;
    }
  }
}

TEST(ProjectionOfACase, EdgesHoldMostOfTheMass) {
  for (const std::string text : {"vocab=5000 hidden=64", "vocab=301 hidden=2 dtype=bf16",
                                 "vocab=5000 hidden=64 temperature=0.3 dtype=bf16"}) {
    const Problem problem = problem_of("lens=8 values=edge_mass " + text);
    for (std::int64_t t = 0; t < 8; ++t) {
      const auto p = softmax(logits(problem, t));
      double edges = 0;
      for (const std::int32_t id : shard_edge_ids(problem.spec.vocab)) edges += p[id];
      EXPECT_GT(edges, 0.8) << text << ' ' << t;
    }
  }
}

TEST(ProjectionOfACase, LateMaxIsLowInTheFirstColumns) {
  for (const std::string text : {"vocab=3000 hidden=64", "vocab=301 hidden=64 dtype=bf16",
                                 "vocab=3000 hidden=64 temperature=0.3 dtype=bf16"}) {
    const Problem problem = problem_of("lens=8 values=late_max " + text);
    const auto low = std::min<std::ptrdiff_t>(1024, problem.spec.vocab / 2);
    for (std::int64_t t = 0; t < 8; ++t) {
      const auto row = logits(problem, t);
      EXPECT_NEAR(mean({row.begin(), row.begin() + low}), -50, 0.5) << text << ' ' << t;
      EXPECT_LT(*std::max_element(row.begin(), row.begin() + low), -40) << text << ' ' << t;
      EXPECT_NEAR(mean({row.begin() + low, row.end()}), 0, 0.5) << text << ' ' << t;
      EXPECT_GT(*std::min_element(row.begin() + low, row.end()), -10) << text << ' ' << t;
    }
  }
}

TEST(ProjectionOfACase, TiesAreExactAndStandInManyPlaces) {
  const Problem problem = problem_of("lens=50 values=ties vocab=1000 hidden=200");
  for (const float value : problem.projection->hidden) {
    ASSERT_TRUE(value == 0 || value == 1 || value == -1);
  }
  int signs[3] = {};
  for (const float value : problem.projection->weight) {
    ASSERT_TRUE(value == 0 || value == 1 || value == -1);
    ++signs[static_cast<int>(value) + 1];
  }
  for (const int count : signs) EXPECT_NEAR(count, 200'000 / 3.0, 1000);
  int tied = 0;
  for (std::int64_t t = 0; t < 50; ++t) {
    const auto row = logits(problem, t);
    tied += std::count(row.begin(), row.end(), *std::max_element(row.begin(), row.end())) > 1;
    for (const double value : row) ASSERT_EQ(value, std::round(value));
  }
  EXPECT_GE(tied, 45);
}

TEST(ProjectionOfACase, WorksWithTheShortestHiddenStates) {
  for (const std::string& regime : kProjectionRegimes) {
    const bool shifted = regime == "all_negative" || regime == "offset" || regime == "edge_mass" ||
                         regime == "late_max";
    const std::string text =
        "lens=4 mask=all vocab=3 values=" + regime + " hidden=" + (shifted ? "2" : "1");
    for (std::int64_t t = 0; t < 4; ++t) {
      for (const double value : logits(problem_of(text), t))
        EXPECT_TRUE(std::isfinite(value)) << regime;
    }
  }
}

TEST(ProjectionOfACase, TheLargestScaleStaysInFloat32) {
  const Problem problem =
      problem_of("lens=3 vocab=50 hidden=16 values=overflow scale=1e30 temperature=1000");
  for (const double value : logits(problem, 1)) EXPECT_LT(std::abs(value), 1e34);
  EXPECT_GT(deviation(logits(problem, 1)), 1e31);
}

TEST(ProjectionOfACase, RefusesWhatNoProductIs) {
  expect_bad_input([] { problem_of("hidden=8 values=masked_vocab"); },
                   {"values = masked_vocab needs logits", "never -inf"});
  for (const std::string values :
       {"finite_mask", "lowest_mask", "vanishing", "buried_target", "impossible_target"}) {
    expect_bad_input([&] { problem_of("hidden=8 values=" + values); },
                     {"values = " + values + " needs logits"});
  }
  expect_bad_input([] { problem_of("hidden=8 values=far_offset"); },
                   {"values = far_offset needs logits", "float32"});
  expect_bad_input([] { problem_of("hidden=8 dtype=f64"); }, {"dtype = f64 needs logits"});
  for (const std::string values : {"all_negative", "offset", "edge_mass", "late_max"}) {
    expect_bad_input([&] { problem_of("hidden=1 values=" + values); },
                     {"hidden = 1", "at least 2"});
  }
}

TEST(OneHot, LogitsAreColumnsOfTheTable) {
  for (const std::string dtype : {"f32", "bf16"}) {
    const Problem problem =
        problem_of("lens=9+14 vocab=61 hidden=61 hidden_values=one_hot dtype=" + dtype);
    const Projection& table = *problem.projection;
    std::vector<double> all;
    for (std::int64_t t = 0; t < problem.tokens(); ++t) {
      const std::vector<double> row = logits(problem, t);
      for (std::int64_t v = 0; v < 61; ++v) {
        EXPECT_EQ(row[v], table.weight_row(v)[problem.input_ids[t]]) << t << " " << v;
      }
      all.insert(all.end(), row.begin(), row.end());
    }
    // As large as logits of the regime, and not smaller by a root of H.
    EXPECT_NEAR(mean(all), 0, 0.15);
    EXPECT_NEAR(deviation(all), 1, 0.15);
  }
}

TEST(OneHot, NeedsASquareTableAndTheNormalRegime) {
  expect_bad_input([] { problem_of("lens=5 vocab=61 hidden=60 hidden_values=one_hot"); },
                   {"one_hot", "hidden = 60", "vocab = 61"});
  for (const std::string values : {"peaked", "ties", "offset", "overflow"}) {
    expect_bad_input(
        [&] { problem_of("lens=5 vocab=9 hidden=9 hidden_values=one_hot values=" + values); },
        {"one_hot", "values = normal"});
  }
}

}  // namespace
}  // namespace lossgrid
