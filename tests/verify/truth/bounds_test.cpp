// SPDX-License-Identifier: Apache-2.0
// The bounds of one row: the error that they allow, and how they scale.
#include "harness/verify/truth/bounds.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TEST(Bounds, LogprobBoundIsTheFormula) {
  const RowTruth row = row_truth(std::vector<double>{1.0, 2.0, 4.0}, 1);
  const double log_sum = std::log(row.sum);
  const double b = 8 + row.spread + log_sum + 2.0 + std::abs(row.logprob);
  EXPECT_DOUBLE_EQ(logprob_bound(row, 10), std::ldexp(1.0, -24) * (4 * b + 10));
  RowTruth declared = row;
  declared.rounds_log_sum_exp = true;
  EXPECT_DOUBLE_EQ(logprob_bound(declared, 10),
                   std::ldexp(1.0, -24) * (4 * (b + 4 + log_sum) + 10));
}

/// Returns the bounds of the log-probability, of the entropy, and of both columns of the gradient.
std::vector<double> bounds_of(const RowTruth& row, double offset) {
  const GradientBound bound(row, -0.25, DType::f32, 12);
  return {logprob_bound(row, 12), entropy_bound(row, 12), bound.computation(offset, 0.2689, true),
          bound.computation(offset + 1, 0.7311, false)};
}

TEST(Bounds, NoneGrowsWithACommonOffset) {
  const auto row_at = [](double offset) {
    return row_truth(std::vector<double>{offset, offset + 1}, 0);
  };
  EXPECT_LT(logprob_bound(row_at(0), 12), 1e-5);  // far below the error of a wrong label or mask
  for (const double offset : {1000.0, -1e4, 0x1p40}) {
    EXPECT_EQ(bounds_of(row_at(offset), offset), bounds_of(row_at(0), 0)) << offset;
  }
  // float64 logits may be read as float32; a declared log-sum-exp is no excuse for an entropy.
  const std::vector<double> exact = bounds_of(row_at(1000), 1000);
  RowTruth f64 = row_at(1000);
  f64.reads_as_float32 = true;
  RowTruth declared = row_at(1000);
  declared.rounds_log_sum_exp = true;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    EXPECT_GT(bounds_of(f64, 1000)[k], 10 * exact[k]) << k;
    if (k == 1) {
      EXPECT_EQ(bounds_of(declared, 1000)[k], exact[k]);
    } else {
      EXPECT_EQ(bounds_of(declared, 1000)[k], bounds_of(f64, 1000)[k]) << k;
    }
  }
}

TEST(Bounds, EntropyOfDistancesIsWithinItsBoundAndThatOfRawLogitsIsNot) {
  constexpr int kVocab = 64;
  for (const float offset : {1e4f, -1e4f, -1e12f}) {
    std::vector<double> logits;
    for (int v = 0; v < kVocab; ++v) {
      logits.push_back(static_cast<double>(offset + 0.125f * static_cast<float>(v % 17)));
    }
    const RowTruth row = row_truth(logits, 0);
    float sum = 0;
    for (const double x : logits) sum += std::exp(static_cast<float>(x - row.max));
    float distances = 0;
    float raw = 0;
    for (const double x : logits) {
      const float p = std::exp(static_cast<float>(x - row.max)) / sum;
      distances += p * static_cast<float>(x - row.max);
      raw += p * static_cast<float>(x);
    }
    const auto off = [&](float entropy) {
      return std::abs(static_cast<double>(entropy) - row.entropy());
    };
    const double bound = entropy_bound(row, kVocab);
    EXPECT_LE(off(std::log(sum) - distances), bound) << offset;
    const float of_raw = (static_cast<float>(row.max) + std::log(sum)) - raw;
    EXPECT_GT(off(of_raw), bound) << offset;
    RowTruth f64 = row;
    f64.reads_as_float32 = true;  // a bound that grows with the logits hides it
    if (std::abs(offset) <= 1e4f) {
      EXPECT_LE(off(of_raw), entropy_bound(f64, kVocab)) << offset;
    }
  }
}

TEST(Bounds, EntropyBoundIsTheFormulaAndSeesAWrongSign) {
  const RowTruth row = row_truth(std::vector<double>{1.0, 2.0, 4.0}, 1);
  const double log_sum = std::log(row.sum);
  const double b =
      8 + row.spread_squared + (1 + row.spread) * (row.spread + log_sum) + row.entropy();
  EXPECT_DOUBLE_EQ(entropy_bound(row, 10), std::ldexp(1.0, -24) * (4 * b + (1 + row.spread) * 10));
  EXPECT_LT(entropy_bound(row, 10), 1e-4 * row.entropy());
}

TEST(Bounds, ErrorsOfTheObjectiveScaleWithTheColumn) {
  const RowTruth row = row_truth(std::vector<double>{0.0, 0.0}, 0);
  const GradientBound bound(row, Enclosure::around(0.25, 0.125), DType::f32, 12);
  EXPECT_DOUBLE_EQ(bound.objective(0, 0.5, true), 0.0625);
  EXPECT_DOUBLE_EQ(bound.objective(0, 0.25, false), 0.03125);
}

TEST(Bounds, ErrorsOfLogitsMoveProbabilities) {
  const std::vector<double> logits{0.0, 0.3, -0.7, 1.1};
  const std::vector<double> errors{1e-5, 2e-5, 3e-5, 1e-5};
  const RowTruth row = row_truth(logits, 2, errors);
  std::vector<double> p(4);
  truth_probabilities(row, logits, p);
  const GradientBound bound(row, -0.25, DType::f32, 12);
  const GradientBound given(row_truth(logits, 2), -0.25, DType::f32, 12);
  for (std::size_t v = 0; v < 4; ++v) {
    EXPECT_NEAR(bound.computation(logits[v], p[v], v == 2, errors[v]) -
                    given.computation(logits[v], p[v], v == 2),
                0.25 * p[v] * (errors[v] + row.mean_error), 1e-18);
  }
}

TEST(Bounds, ExponentsThatAreOffByMoreThanOneMakeAnyProbability) {
  // As float64 logits around -1e12 are read as float32.
  RowTruth row = row_truth(std::vector<double>{-1e12, -1e12 + 27, -1e12 - 60}, 1);
  const GradientBound exact(row, 0.25, DType::f32, 12);
  EXPECT_LT(exact.roundings(-1e12 - 60, std::exp(-87.0), false, 0), 1e-6);
  row.reads_as_float32 = true;
  const GradientBound bound(row, 0.25, DType::f32, 12);
  EXPECT_NEAR(bound.roundings(-1e12 - 60, std::exp(-87.0), false, 0), 0.25, 1e-12);
  // A probability of 0 stays one: of -inf, and of masks that no rounding brings near.
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(bound.beyond_proportion(-inf, 0, 0), 0);
  EXPECT_EQ(bound.beyond_proportion(-3e38, 0, 0), 0);
}

TEST(Bounds, ErrorsUpToOneMoveAProbabilityInProportion) {
  const GradientBound bound(row_truth(std::vector<double>{0.0, 0.0}, 0), 1, DType::f32, 12);
  EXPECT_EQ(bound.beyond_proportion(0, 0.5, 0.5), 0);
  EXPECT_NEAR(bound.beyond_proportion(-20, 1e-9, 3), std::exp(3 - 20 - std::log(2.0)) - 3e-9,
              1e-12);
}

TEST(Bounds, GradientBoundSeesFourPerMille) {
  const std::vector<double> logits{0.0, 0.3, -0.7, 1.1};
  const RowTruth row = row_truth(logits, 2);
  std::vector<double> want(4);
  truth_probabilities(row, logits, want);
  truth_gradient(row, 0.25, want, 0, want);
  const GradientBound f32(row, 0.25, DType::f32, 12);
  for (std::size_t v = 0; v < want.size(); ++v) {
    const double p = std::exp(logits[v] - row.max) / row.sum;
    const double bound =
        f32.rounding(want[v], logits[v], p, v == 2) + f32.computation(logits[v], p, v == 2);
    EXPECT_LT(bound, 0.004 * std::abs(want[v])) << v;
    EXPECT_GT(bound, std::ldexp(1.0, -24) * std::abs(want[v])) << v;
  }
}

TEST(Bounds, Bf16GradientMayBeRoundedOnce) {
  const std::vector<double> logits{0.0, 0.3, -0.7, 1.1};
  const RowTruth row = row_truth(logits, 2);
  std::vector<double> want(4);
  truth_probabilities(row, logits, want);
  truth_gradient(row, 0.25, want, 0, want);
  const GradientBound bf16_bound(row, 0.25, DType::bf16, 12);
  for (std::size_t v = 0; v < want.size(); ++v) {
    const double rounded = round_to(DType::bf16, want[v]);
    const double p = std::exp(logits[v] - row.max) / row.sum;
    const double bound = bf16_bound.rounding(want[v], logits[v], p, v == 2) +
                         bf16_bound.computation(logits[v], p, v == 2);
    EXPECT_LE(std::abs(rounded - want[v]), bound);
    EXPECT_GT(std::abs(round_to(DType::bf16, 1.02 * want[v]) - want[v]), bound);
  }
}

TEST(Bounds, VanishingProbabilitiesMayUnderflow) {
  const std::vector<double> logits{0.0, -200.0};
  const GradientBound bound(row_truth(logits, 0), 1.0, DType::f32, 12);
  EXPECT_GE(bound.computation(-200.0, std::exp(-200.0), false), std::exp(-200.0));
}

TEST(Bounds, AreFiniteForFiniteLogits) {
  constexpr double kLowest = std::numeric_limits<double>::lowest();
  for (const std::vector<double>& logits :
       {std::vector<double>(16, -1e30), std::vector<double>(16, kLowest),
        std::vector<double>{0, 1, kLowest, kLowest}, std::vector<double>{1e300, -0.5, 1, -1e30},
        std::vector<double>{-3.4e38, 3.4e38, 0, 1}}) {
    const RowTruth row = row_truth(logits, 1);
    EXPECT_TRUE(std::isfinite(row.logprob));
    EXPECT_TRUE(std::isfinite(logprob_bound(row, 12)));
    EXPECT_TRUE(std::isfinite(entropy_bound(row, 12)));
    const GradientBound bound(row, Enclosure::around(0.25, 0.1), DType::f32, 12);
    for (const double x : logits) {
      const double p = std::exp(x - row.max) / row.sum;
      EXPECT_TRUE(std::isfinite(bound.computation(x, p, false))) << x;
    }
  }
}

TEST(Bounds, AnUnboundedGradientIsNoNanWhereThereIsNoProbability) {
  const RowTruth row = row_truth(std::vector<double>{0.0, -2000.0}, 0);
  const GradientBound bound(row, Enclosure::around(1, HUGE_VAL), DType::f32, 12);
  EXPECT_TRUE(bound.is_unbounded());
  EXPECT_EQ(bound.computation(-2000, 0, false), kVanishingF32);
  EXPECT_EQ(bound.objective(-2000, 0, false), 0);
  EXPECT_EQ(bound.computation(0, 1, true), HUGE_VAL);
  EXPECT_FALSE(GradientBound(row, Enclosure::around(1, 2), DType::f32, 12).is_unbounded());
}

TEST(Bounds, ALogprobIsNoFurtherAbove0WhereLogitsAreLarge) {
  RowTruth near = row_truth(std::vector<double>{0.0, 1.0}, 1);
  near.rounds_log_sum_exp = true;
  RowTruth far = row_truth(std::vector<double>{-1e30, -1e30}, 1);
  far.rounds_log_sum_exp = true;
  EXPECT_LT(positive_logprob_bound(near, 12), logprob_bound(near, 12));
  EXPECT_LT(positive_logprob_bound(far, 12), 1e-5);
  EXPECT_GT(logprob_bound(far, 12), 1e22);
}

}  // namespace
}  // namespace lossgrid
