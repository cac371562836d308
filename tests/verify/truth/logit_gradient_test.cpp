// SPDX-License-Identifier: Apache-2.0
// The gradient of a loss that depends on all numbers of a row: by hand, against differences of the
// numbers in long double, and its own derivatives.
#include "harness/verify/truth/logit_gradient.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "term_objective.h"

namespace lossgrid {
namespace {

constexpr double kGradientInf = std::numeric_limits<double>::infinity();
constexpr double kLn2 = 0.6931471805599453;

std::vector<double> logit_gradient_of(const std::vector<double>& z, std::int32_t target,
                                      const TermWeights& weights) {
  const RowTruth row = row_truth(z, target);
  std::vector<double> dz(z.size());
  truth_probabilities(row, z, dz);
  LogitGradient(row, weights.gradient()).write(z, dz, 0, dz);
  return dz;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t v = 0; v < want.size(); ++v) EXPECT_NEAR(got[v], want[v], 1e-15) << v;
}

TEST(LogitGradient, ByHand) {
  // p = (1/2, 1/4, 1/4, 0), s = 2, F = 3, V = 4.
  const std::vector<double> z{kLn2, 0, 0, -kGradientInf};
  const RowTruth row = row_truth(z, 0);
  EXPECT_DOUBLE_EQ(row.entropy(), 1.5 * kLn2);
  EXPECT_DOUBLE_EQ(row.logsumexp(), 2 * kLn2);
  EXPECT_DOUBLE_EQ(row.mean_logprob(), -1.25 * kLn2);
  EXPECT_EQ(row.finite, 3);
  EXPECT_EQ(row.vocab, 4);
  EXPECT_DOUBLE_EQ(row.mean_distance, 0.5 * kLn2);
  // ln p + H = (ln 2 / 2, -ln 2 / 2, -ln 2 / 2).
  expect_near(logit_gradient_of(z, 0, {1, 0, 0, 0}), {0.5, -0.25, -0.25, 0});
  expect_near(logit_gradient_of(z, 0, {0, 1, 0, 0}), {-kLn2 / 4, kLn2 / 8, kLn2 / 8, 0});
  expect_near(logit_gradient_of(z, 0, {0, 0, 1, 0}), {0.5, 0.25, 0.25, 0});
  expect_near(logit_gradient_of(z, 0, {0, 0, 0, 1}), {-0.125, 0.0625, 0.0625, 0});
  expect_near(logit_gradient_of(z, 1, {4, 8, 2, 16}),
              {-2 - 2 * kLn2 + 1 - 2, 3 + kLn2 + 0.5 + 1, -1 + kLn2 + 0.5 + 1, 0});
}

/// Returns the loss of a row in long double, by the definitions.
long double loss_of(const std::vector<double>& z, std::size_t moved, long double by,
                    std::int32_t target, const TermWeights& weights) {
  const auto at = [&](std::size_t v) {
    return static_cast<long double>(z[v]) + (v == moved ? by : 0);
  };
  long double max = -kGradientInf;
  for (std::size_t v = 0; v < z.size(); ++v) max = std::max(max, at(v));
  long double sum = 0;
  for (std::size_t v = 0; v < z.size(); ++v) sum += std::exp(at(v) - max);
  const long double lse = max + std::log(sum);
  long double entropy = 0;
  long double mean = 0;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (std::isinf(z[v])) continue;
    entropy -= std::exp(at(v) - lse) * (at(v) - lse);
    mean += (at(v) - lse) / static_cast<long double>(z.size());
  }
  return weights.logprob * (at(static_cast<std::size_t>(target)) - lse) +
         weights.entropy * entropy + weights.logsumexp * lse + weights.mean_logprob * mean;
}

/// Random logits; every fourth is -inf if `masked`, one is far above the others if `peaked`.
std::vector<double> random_row(int seed, bool masked, bool peaked) {
  const RandomStream random(static_cast<std::uint64_t>(seed), 0);
  std::vector<double> z(13);
  for (std::size_t v = 0; v < z.size(); ++v) {
    z[v] = 3 * random.normal(v);
    if (masked && v % 4 == 1) z[v] = -kGradientInf;
  }
  if (peaked) z[6] += 20;
  return z;
}

constexpr TermWeights kGradientWeights[] = {
    kAllTerms, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}, {1, 0, 0, 0}};

TEST(LogitGradient, IsThatOfDifferences) {
  for (int seed = 1; seed <= 10; ++seed) {
    for (const bool masked : {false, true}) {
      for (const bool peaked : {false, true}) {
        const std::vector<double> z = random_row(seed, masked, peaked);
        for (const std::int32_t target : {6, 2}) {
          for (const TermWeights& weights : kGradientWeights) {
            const std::vector<double> dz = logit_gradient_of(z, target, weights);
            double sum = 0;
            for (std::size_t v = 0; v < z.size(); ++v) {
              sum += dz[v];
              if (std::isinf(z[v])) {
                EXPECT_EQ(dz[v], 0);
                continue;
              }
              constexpr long double kStep = 1e-5L;
              const long double difference =
                  (loss_of(z, v, kStep, target, weights) - loss_of(z, v, -kStep, target, weights)) /
                  (2 * kStep);
              EXPECT_NEAR(dz[v], static_cast<double>(difference), 1e-9)
                  << "seed " << seed << " column " << v;
            }
            EXPECT_NEAR(sum, weights.logsumexp, 1e-14);
          }
        }
      }
    }
  }
}

TEST(LogitGradient, DoesNotCancelForACertainLabel) {
  // Others have q = e^-40 each: 1 - p_y = 2 q, ln p_y + H = 2 q (40 + 1) - 2 q.
  const std::vector<double> z{0, 40, 0};
  const double q = std::exp(-40.0);
  EXPECT_NEAR(logit_gradient_of(z, 1, {1, 0, 0, 0})[1] / (2 * q), 1, 1e-12);
  EXPECT_NEAR(logit_gradient_of(z, 1, {0, 1, 0, 0})[1] / (-80 * q), 1, 1e-12);
  EXPECT_NEAR(logit_gradient_of(z, 1, {1, 1, 0, 0})[1] / (-78 * q), 1, 1e-12);
  EXPECT_NEAR(logit_gradient_of(z, 1, {0, 1, 0, 0})[0] / (40 * q), 1, 1e-12);
}

TEST(LogitGradient, ProbabilitiesThatVanishHaveTheGradientOfTheMeanAlone) {
  const std::vector<double> z{0, -2000, -1.7e308, -kGradientInf};
  const std::vector<double> dz = logit_gradient_of(z, 0, kAllTerms);
  EXPECT_EQ(dz[1], kAllTerms.mean_logprob / 4);
  EXPECT_EQ(dz[2], kAllTerms.mean_logprob / 4);
  EXPECT_EQ(dz[3], 0);
}

TEST(LogitGradient, IsTheSameToTheLastBitForTheLogprobAlone) {
  const std::vector<double> z = random_row(3, true, false);
  const RowTruth row = row_truth(z, 2);
  std::vector<double> p(z.size());
  truth_probabilities(row, z, p);
  std::vector<double> want(z.size());
  truth_gradient(row, -0.3, p, 0, want);
  std::vector<double> got(z.size());
  const LogitGradient gradient(row, {.logprob = -0.3});
  EXPECT_TRUE(gradient.logprob_alone());
  gradient.write(z, p, 0, got);
  EXPECT_EQ(got, want);
}

TEST(LogitGradient, IsAPartOfTheWholeForPartOfTheIds) {
  const std::vector<double> z = random_row(3, true, false);
  const std::vector<double> whole = logit_gradient_of(z, 7, kAllTerms);
  const RowTruth row = row_truth(z, 7);
  const std::vector<double> part(z.begin() + 5, z.end());
  std::vector<double> dz(part.size());
  truth_probabilities(row, part, dz);
  LogitGradient(row, kAllTerms.gradient()).write(part, dz, 5, dz);
  EXPECT_EQ(dz, std::vector<double>(whole.begin() + 5, whole.end()));
}

TEST(LogitGradient, SquaredChangesAreThoseOfDifferences) {
  for (const bool masked : {false, true}) {
    const std::vector<double> z = random_row(5, masked, false);
    for (const TermWeights& weights : kGradientWeights) {
      const RowTruth row = row_truth(z, 2);
      const LogitGradient gradient(row, weights.gradient());
      std::vector<double> p(z.size());
      truth_probabilities(row, z, p);
      std::vector<double> squares(z.size());
      LogitRoundings roundings;
      for (std::size_t u = 0; u < z.size(); ++u) {
        if (std::isinf(z[u])) continue;
        const double e = 1e-3 * static_cast<double>(1 + u % 5);
        roundings.add(p[u], e, row.centred_logprob(z[u], p[u]));
        std::vector<double> up = z;
        std::vector<double> down = z;
        up[u] += 1e-5;
        down[u] -= 1e-5;
        const std::vector<double> above = logit_gradient_of(up, 2, weights);
        const std::vector<double> below = logit_gradient_of(down, 2, weights);
        for (std::size_t v = 0; v < z.size(); ++v) {
          squares[v] += std::pow((above[v] - below[v]) / 2e-5 * e, 2);
        }
      }
      for (std::size_t v = 0; v < z.size(); ++v) {
        const double e = std::isinf(z[v]) ? 0 : 1e-3 * static_cast<double>(1 + v % 5);
        EXPECT_NEAR(gradient.squared_change(z[v], p[v], e, roundings), squares[v],
                    1e-6 * squares[v] + 1e-20)
            << v;
      }
    }
  }
}

}  // namespace
}  // namespace lossgrid
