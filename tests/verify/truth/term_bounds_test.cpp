// SPDX-License-Identifier: Apache-2.0
// Bounds where the loss depends on row terms: they are the formulas of bounds.h, those of the
// log-probability alone stay what they are, and they separate right float32 loops from wrong ones.
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "harness/verify/truth/bounds.h"
#include "harness/verify/truth/logit_gradient.h"
#include "one_row.h"
#include "term_emulation.h"
#include "term_objective.h"

namespace lossgrid {
namespace {

constexpr double kTermRoundoff = 0x1p-24;
constexpr double kTermsInf = std::numeric_limits<double>::infinity();

TEST(TermBounds, AreTheFormulasOfLogsumexpAndMeanLogprob) {
  // m = ln 3, s = 4/3, S1 = ln 3 / 4, L = ln 4; F = 2 of V = 4, A = ln 3 / 4, M = -A - ln s / 2.
  RowTruth row = row_truth(std::vector<double>{kLn3, 0, -kTermsInf, -kTermsInf}, 1);
  const double log_sum = std::log(4.0 / 3);
  const double ln4 = std::log(4.0);
  const double mean = kLn3 / 4 + log_sum / 2;
  EXPECT_NEAR(row.mean_logprob(), -mean, 1e-15);
  const double of_lse = 4 * (8 + kLn3 / 4 + log_sum + ln4) + 10;
  const double of_mean = 4 * (8 + kLn3 / 4 + log_sum + mean) + (1 + kLn3 / 4) * 10;
  EXPECT_NEAR(logsumexp_bound(row, 10) / kTermRoundoff, of_lse, 1e-12);
  EXPECT_NEAR(mean_logprob_bound(row, 10) / kTermRoundoff, of_mean, 1e-12);
  for (bool RowTruth::*allowed : {&RowTruth::reads_as_float32, &RowTruth::rounds_log_sum_exp}) {
    RowTruth rounded = row;
    rounded.*allowed = true;
    EXPECT_NEAR(logsumexp_bound(rounded, 10) / kTermRoundoff, of_lse, 1e-12);
    EXPECT_NEAR(mean_logprob_bound(rounded, 10) / kTermRoundoff, of_mean + 2 * ln4, 1e-12);
  }
}

TEST(TermBounds, DoNotGrowWithACommonOffset) {
  const auto bound_at = [](double offset) {
    return mean_logprob_bound(row_truth(std::vector<double>{offset, offset + 1}, 0), 12);
  };
  for (const double offset : {1000.0, -1e4, 0x1p40}) EXPECT_EQ(bound_at(offset), bound_at(0));
}

/// The row above: p = (3/4, 1/4, 0, 0), ln p + H = (S1, S1 - ln 3) = ln 3 (1/4, -3/4).
struct ByHand {
  RowTruth row = row_truth(std::vector<double>{kLn3, 0, -kTermsInf, -kTermsInf}, 1);
  double log_sum = std::log(4.0 / 3);
  double d0 = kTermRoundoff * (4 * (8 + log_sum) + 12);         // D of column 0
  double d1 = kTermRoundoff * (4 * (8 + kLn3 + log_sum) + 12);  // of column 1

  /// Returns what the weights add to the bound of the computation.
  double added(const TermWeights& weights, double x, double p) const {
    TermWeights logprob = weights;
    logprob.entropy = logprob.logsumexp = logprob.mean_logprob = 0;
    const GradientBound with(row, weights.gradient(), DType::f32, 12);
    const GradientBound without(row, logprob.gradient(), DType::f32, 12);
    return with.computation(x, p, false) - without.computation(x, p, false);
  }
};

TEST(TermBounds, AreTheFormulasOfGradients) {
  const ByHand by;
  const double of_entropy = entropy_bound(by.row, 12);
  EXPECT_NEAR(by.added({-1, 0.5, 0, 0}, kLn3, 0.75),
              0.5 * 0.75 * (by.d0 * (1 + kLn3 / 4) + of_entropy), 1e-20);
  EXPECT_NEAR(by.added({-1, 0.5, 0, 0}, 0, 0.25),
              0.5 * 0.25 * (by.d1 * (1 + kLn3 * 0.75) + of_entropy), 1e-20);
  EXPECT_NEAR(by.added({-1, 0, -0.5, 0}, kLn3, 0.75), 0.5 * 0.75 * by.d0, 1e-20);
  EXPECT_NEAR(by.added({-1, 0, -0.5, 0}, 0, 0.25), 0.5 * 0.25 * by.d1, 1e-20);
  // F/V = 1/2.
  EXPECT_NEAR(by.added({-1, 0, 0, 2}, kLn3, 0.75),
              2 * (4 * kTermRoundoff * (0.25 + 0.375) + 0.375 * by.d0), 1e-20);
  EXPECT_NEAR(by.added({-1, 0, 0, 2}, 0, 0.25),
              2 * (4 * kTermRoundoff * (0.25 + 0.125) + 0.125 * by.d1), 1e-20);
  EXPECT_NEAR(by.added({-1, 0, 0, 2}, -1000, 0), 2 * 4 * kTermRoundoff * 0.25, 1e-20);
  // Nothing where a logit is -inf; terms add up.
  EXPECT_LT(by.added({-1, 1, 1, 1}, -kTermsInf, 0), 100 * kVanishingF32);
  EXPECT_NEAR(by.added({-1, 0.5, -0.5, 2}, 0, 0.25),
              by.added({-1, 0.5, 0, 0}, 0, 0.25) + by.added({-1, 0, -0.5, 0}, 0, 0.25) +
                  by.added({-1, 0, 0, 2}, 0, 0.25),
              1e-20);
}

TEST(TermBounds, IntervalsOfAllGradientsCount) {
  const ByHand by;
  const auto radius = [&](std::size_t k, double x, double p) {
    RowGradientTruth gradient = kAllTerms.gradient();
    Enclosure* numbers[] = {&gradient.logprob, &gradient.terms[RowTerm::entropy],
                            &gradient.terms[RowTerm::logsumexp],
                            &gradient.terms[RowTerm::mean_logprob]};
    *numbers[k] = Enclosure::around(numbers[k]->value, 0.0625);
    const GradientBound bound(by.row, gradient, DType::bf16, 12);
    EXPECT_NEAR(bound.rounding(0.5, x, p, false),
                1.01 * 0x1p-9 * 2 * (0.5 + bound.objective(x, p, false)), 1e-15);
    EXPECT_EQ(bound.row_sum_objective(p), k == 2 ? p * 0.0625 : 0);
    return bound.objective(x, p, false) / 0.0625;
  };
  EXPECT_NEAR(radius(0, kLn3, 0.75), 0.75, 1e-12);
  EXPECT_NEAR(radius(1, kLn3, 0.75), 0.75 * kLn3 / 4, 1e-12);
  EXPECT_NEAR(radius(1, 0, 0.25), 0.25 * kLn3 * 0.75, 1e-12);
  EXPECT_NEAR(radius(2, 0, 0.25), 0.25, 1e-12);
  EXPECT_NEAR(radius(3, kLn3, 0.75), 0.375 - 0.25, 1e-12);
  EXPECT_NEAR(radius(3, 0, 0.25), 0.25 - 0.125, 1e-12);
  for (const std::size_t k : {0u, 1u, 2u, 3u}) EXPECT_EQ(radius(k, -kTermsInf, 0), 0) << k;
}

TEST(TermBounds, AnIntervalWithoutAnEndLeavesNoBound) {
  const ByHand by;
  for (std::size_t k = 1; k < 4; ++k) {
    RowGradientTruth gradient = kAllTerms.gradient();
    Enclosure* numbers[] = {&gradient.logprob, &gradient.terms[RowTerm::entropy],
                            &gradient.terms[RowTerm::logsumexp],
                            &gradient.terms[RowTerm::mean_logprob]};
    EXPECT_FALSE(GradientBound(by.row, gradient, DType::f32, 12).is_unbounded());
    numbers[k]->high = kTermsInf;
    const GradientBound bound(by.row, gradient, DType::f32, 12);
    EXPECT_TRUE(bound.is_unbounded());
    EXPECT_EQ(bound.computation(-kTermsInf, 0, false), bound.row().floor);
    EXPECT_EQ(bound.objective(-kTermsInf, 0, false), 0);
    EXPECT_EQ(bound.computation(0, 0.25, false), kTermsInf);
  }
}

TEST(TermBounds, UnderflowGrowsWithTheGradients) {
  const ByHand by;
  const auto floor = [&](const TermWeights& weights) {
    return GradientBound(by.row, weights.gradient(), DType::f32, 12).row().floor;
  };
  EXPECT_EQ(floor({-1, 0, 0.5, 0}), 1.5 * kVanishingF32);
  EXPECT_EQ(floor({-1, 0, 0.5, -8}), 9.5 * kVanishingF32);
  EXPECT_DOUBLE_EQ(floor({0, 2, 0, 0}), 2 * (by.row.entropy() + 88) * kVanishingF32);
  EXPECT_EQ(floor({0, 0, 1e-3, 0}), kVanishingF32);
}

TEST(TermBounds, AreTheSameToTheLastBitForTheLogprobAlone) {
  const RandomStream random(3, 0);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<double> x(9);
    std::vector<double> e(9);
    for (std::size_t v = 0; v < 9; ++v) {
      x[v] = 4 * random.normal(9 * seed + v);
      e[v] = 1e-6 * random.uniform(9 * seed + v);
    }
    RowTruth row = row_truth(x, 2, e);
    row.reads_as_float32 = seed % 2 == 1;
    const Enclosure g = Enclosure::around(random.normal(seed, 1), 1e-4);
    const GradientBound bound(row, RowGradientTruth{g}, DType::bf16, 12);
    const double largest = std::max(std::abs(g.low), std::abs(g.high));
    const double row_term =
        kTermRoundoff * (4 * (8 + std::abs(std::log(row.sum))) + 12) + offset_rounding(row);
    for (std::size_t v = 0; v < 9; ++v) {
      const double p = std::exp(x[v] - row.max) / row.sum;
      const double off = std::abs(p - (v == 2 ? 1.0 : 0.0));
      const double roundings =
          p * (row_term + 4 * kTermRoundoff * std::abs(x[v] - row.max)) + 4 * kTermRoundoff * off;
      EXPECT_EQ(bound.computation(x[v], p, v == 2, e[v]),
                kVanishingF32 * std::max(1.0, std::abs(g.value)) +
                    largest * (roundings + p * (e[v] + row.mean_error)));
      EXPECT_EQ(bound.objective(x[v], p, v == 2), g.radius() * off);
      EXPECT_EQ(bound.rounding(0.5, x[v], p, v == 2),
                1.01 * unit_roundoff(DType::bf16) * (0.5 + g.radius() * off));
    }
  }
}

TEST(TermBounds, ErrorsOfLogitsMoveGradients) {
  // Logits moved by their errors, each way: within what the errors add to the bound.
  const std::vector<double> x{0.5, -1.25, 3.0, 2.9, -4.0};
  const std::vector<double> e{1e-6, 3e-6, 2e-6, 1e-7, 5e-6};
  const RowTruth row = row_truth(x, 1, e);
  const RowTruth given = row_truth(x, 1);
  for (const TermWeights& weights :
       {TermWeights{0, 1, 0, 0}, TermWeights{0, 0, 1, 0}, TermWeights{0, 0, 0, 1}, kAllTerms}) {
    const GradientBound with(row, weights.gradient(), DType::f32, 12);
    const GradientBound without(given, weights.gradient(), DType::f32, 12);
    double largest = 0;
    for (unsigned signs = 0; signs < 32; ++signs) {
      std::vector<double> moved = x;
      for (std::size_t v = 0; v < 5; ++v) moved[v] += (signs >> v & 1u) != 0 ? e[v] : -e[v];
      const RowTruth other = row_truth(moved, 1);
      for (std::size_t v = 0; v < 5; ++v) {
        const double p = std::exp(x[v] - row.max) / row.sum;
        const double q = std::exp(moved[v] - other.max) / other.sum;
        const double change = LogitGradient(other, weights.gradient()).at(moved[v], q, v == 1) -
                              LogitGradient(row, weights.gradient()).at(x[v], p, v == 1);
        const double allowed =
            with.computation(x[v], p, v == 1, e[v]) - without.computation(x[v], p, v == 1);
        EXPECT_LE(std::abs(change), 1.0001 * allowed) << v;
        largest = std::max(largest, std::abs(change) / allowed);
      }
    }
    EXPECT_GT(largest, 0.2);
  }
}

/// A row of float32 logits of one kind.
struct EmulatedRow {
  std::string kind;
  std::vector<float> x;
  std::int32_t target = 1;

  RowTruth truth() const { return row_truth(std::vector<double>(x.begin(), x.end()), target); }
};

std::vector<EmulatedRow> emulated_rows(std::uint64_t seed, std::size_t vocab) {
  const RandomStream random(seed, 0);
  const auto row = [&](const char* kind, float scale, float offset) {
    EmulatedRow made{kind, std::vector<float>(vocab)};
    for (std::size_t v = 0; v < vocab; ++v) made.x[v] = offset + scale * random.normal(v);
    return made;
  };
  std::vector<EmulatedRow> rows{row("normal", 1, 0),    row("wide", 8, 0),    row("far", 1, 1e4f),
                                row("equal", 0, 2),     row("certain", 1, 0), row("masked", 2, 0),
                                row("vanishing", 60, 0)};
  rows[4].x[1] += 30;
  for (std::size_t v = 0; v < vocab; v += 2) rows[5].x[v] = -std::numeric_limits<float>::infinity();
  return rows;
}

/// Returns the largest error of the gradient, in bounds.
double worst_of(const EmulatedRow& row, const TermWeights& weights, TermOrder order,
                TermFault fault = TermFault::none) {
  const RowTruth truth = row.truth();
  const RowGradientTruth gradient = weights.gradient();
  const GradientBound bound(truth, gradient, DType::f32, static_cast<int>(row.x.size()));
  const LogitGradient want(truth, gradient);
  const EmulatedTerms got = emulate_terms(row.x, row.target, gradient, order, fault);
  double worst = 0;
  for (std::size_t v = 0; v < row.x.size(); ++v) {
    const auto x = static_cast<double>(row.x[v]);
    const double p = std::exp(x - truth.max) / truth.sum;
    const bool is_target = static_cast<std::int32_t>(v) == row.target;
    const double dz = want.at(x, p, is_target);
    const double slack = bound.rounding(dz, x, p, is_target) + bound.computation(x, p, is_target);
    worst = std::max(worst, std::abs(static_cast<double>(got.gradient[v]) - dz) / slack);
  }
  return worst;
}

constexpr TermWeights kEmulated[] = {
    kAllTerms, {-1, 0.01, 0, 0}, {-1, 0, 1e-4, 0}, {-0.9, 0, 0, -0.1}, {0, 1, 0, 0}};

TEST(TermBounds, HoldForPlainLoops) {
  double largest = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    for (const std::size_t vocab : {4u, 33u, 1000u}) {
      for (const EmulatedRow& row : emulated_rows(seed, vocab)) {
        const RowTruth truth = row.truth();
        const auto adds = static_cast<int>(vocab);
        for (const TermOrder order : {TermOrder::factors_first, TermOrder::term_by_term}) {
          const EmulatedTerms got = emulate_terms(row.x, row.target, kAllTerms.gradient(), order);
          EXPECT_LE(std::abs(got.logsumexp - truth.logsumexp()), logsumexp_bound(truth, adds));
          EXPECT_LE(std::abs(got.mean_logprob - truth.mean_logprob()),
                    mean_logprob_bound(truth, adds));
          EXPECT_LE(std::abs(got.entropy - truth.entropy()), entropy_bound(truth, adds));
          for (const TermWeights& weights : kEmulated) {
            const double worst = worst_of(row, weights, order);
            EXPECT_LE(worst, 1) << row.kind << ", V " << vocab << ", seed " << seed;
            largest = std::max(largest, worst);
          }
        }
      }
    }
  }
  EXPECT_GT(largest, 0.05);
}

TEST(TermBounds, SeeEveryFault) {
  const auto worst = [](std::size_t kind, const TermWeights& weights, TermFault fault) {
    return worst_of(emulated_rows(5, 200)[kind], weights, TermOrder::factors_first, fault);
  };
  constexpr std::size_t kNormal = 0;
  constexpr std::size_t kMasked = 5;
  const TermWeights entropy{-1, 0.01, 0, 0};
  const TermWeights mean{-0.9, 0, 0, -0.1};
  const TermWeights lse{-1, 0, 1e-2, 0};
  for (const std::size_t kind : {kNormal, kMasked}) {
    EXPECT_GT(worst(kind, entropy, TermFault::entropy_sign), 100);
    EXPECT_GT(worst(kind, entropy, TermFault::entropy_of_half), 100);
    EXPECT_GT(worst(kind, entropy, TermFault::no_entropy_mean), 100);
    EXPECT_GT(worst(kind, mean, TermFault::no_share), 100);
    EXPECT_GT(worst(kind, lse, TermFault::no_logsumexp), 100);
    EXPECT_GT(worst(kind, lse, TermFault::logsumexp_of_target), 100);
  }
  EXPECT_GT(worst(kMasked, mean, TermFault::all_columns_finite), 100);
  EXPECT_GT(worst(kMasked, mean, TermFault::mean_of_finite), 100);
  EXPECT_GT(worst(kMasked, mean, TermFault::share_of_minus_inf), 100);
}

TEST(TermBounds, RejectWrongSums) {
  // The target's number, a sum over a shard, V in place of F, 1/F in place of 1/V.
  const EmulatedRow row = emulated_rows(5, 200)[5];
  const RowTruth truth = row.truth();
  const double lse = logsumexp_bound(truth, 200);
  const double mean = mean_logprob_bound(truth, 200);
  EXPECT_LT(lse, 1e-4);
  EXPECT_LT(mean, 3e-4);
  EXPECT_GT(std::abs(std::log(2)), 100 * lse);
  EXPECT_GT(truth.finite_share() * std::log(truth.sum), 100 * mean);
  EXPECT_GT(std::abs(truth.mean_logprob() / truth.finite_share() - truth.mean_logprob()),
            100 * mean);
}

}  // namespace
}  // namespace lossgrid
