// SPDX-License-Identifier: Apache-2.0
// The transform of logits, its slope and the kept sets of a sampler against a plain recomputation
// from docs/objectives.md ("Row terms and transforms of the logits", "Sampling masks"), over random
// rows with ties. The judge and the implementations share harness/problem/values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "harness/problem/batch/problem.h"
#include "harness/problem/values/logit_transform.h"
#include "harness/problem/values/sampling_mask.h"
#include "problem_of.h"

namespace lossgrid {
namespace {

/// z = softcap tanh(scale x / softcap) / temperature, or scale x / temperature.
double plain_z(double x, double scale, double softcap, double temperature) {
  const double scaled = scale * x;
  const double capped = softcap == 0 ? scaled : softcap * std::tanh(scaled / softcap);
  return capped / temperature;
}

/// Returns a 1 for every id in the kept set of logits z: top k by counting larger logits, then top
/// p by the sum of the probabilities from the smallest to an id itself. Of equal logits the higher
/// id comes first in ascending order.
std::vector<int> plain_kept(const std::vector<double>& z, std::size_t top_k, double top_p) {
  std::vector<int> kept(z.size(), 1);
  for (std::size_t v = 0; top_k > 0 && v < z.size(); ++v) {
    std::size_t larger = 0;
    for (const double other : z) larger += other > z[v] ? 1 : 0;
    kept[v] = larger < top_k ? 1 : 0;
  }
  if (top_p == 1) return kept;
  const std::vector<int> by_k = kept;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (by_k[v] == 1) most = std::max(most, z[v]);
  }
  double total = 0;
  for (std::size_t v = 0; v < z.size(); ++v) total += by_k[v] == 1 ? std::exp(z[v] - most) : 0;
  for (std::size_t v = 0; v < z.size(); ++v) {
    if (by_k[v] == 0) continue;
    double up_to_v = 0;
    bool is_largest = true;
    for (std::size_t u = 0; u < z.size(); ++u) {
      if (by_k[u] == 0) continue;
      const bool below = z[u] < z[v] || (z[u] == z[v] && u >= v);
      up_to_v += below ? std::exp(z[u] - most) / total : 0;
      is_largest = is_largest && below;
    }
    // A sum within roundings of 1 - top_p is avoided by the draws.
    kept[v] = is_largest || up_to_v > 1 - top_p ? 1 : 0;
  }
  return kept;
}

TEST(PlainValues, TransformsAreThoseOfTheFormula) {
  std::mt19937 random(40);
  std::uniform_real_distribution<double> factor(0.3, 3);
  std::uniform_real_distribution<double> logit(-40, 40);
  for (int k = 0; k < 4000; ++k) {
    const double scale = factor(random);
    const double softcap = k % 3 == 0 ? 0 : 10 * factor(random);
    const double temperature = factor(random);
    const double own = k % 2 == 0 ? 1 : factor(random);
    const TrueRowTransform row = row_transform({scale, softcap, temperature, k % 2 != 0}, own);
    const double x = logit(random);
    const double want = plain_z(x, scale, softcap, temperature * own);
    ASSERT_NEAR(row.apply(x), want, 1e-12 * (1 + std::abs(want)));
    const double step = 1e-5;
    const double slope = (plain_z(x + step, scale, softcap, temperature * own) -
                          plain_z(x - step, scale, softcap, temperature * own)) /
                         (2 * step);
    ASSERT_NEAR(row.slope(want), slope, 1e-8 * (1 + std::abs(slope)));
  }
}

/// Rows of whole problems: keys of a case, temperatures of sequences, the softmax's logits, the
/// teacher's, and the divisor of a product with the weight.
TEST(PlainValues, RowsOfACaseAreTransformedByItsKeys) {
  std::mt19937 random(41);
  for (int k = 0; k < 40; ++k) {
    const double scale = 0.25 * (1 + random() % 8);
    const double softcap = random() % 2 == 0 ? 0 : 2 + random() % 5;
    const double temperature = 0.25 * (1 + random() % 8);
    const bool by_sequence = random() % 2 == 0;
    const std::string text = fmt::format(
        "lens=3+0+4+2 vocab=5 logit_scale={} logit_softcap={} temperature={} "
        "sequence_temperatures={} seed={}",
        scale, softcap, temperature, by_sequence, random() % 100);
    SCOPED_TRACE(text);
    Problem problem = problem_of(text);
    draw_teacher(problem);
    const Problem hidden = problem_of(text + " hidden=3");
    for (std::int64_t i = 0, t = 0; i < problem.sequences(); ++i) {
      for (std::int64_t o = 0; o < problem.lengths[i]; ++o, ++t) {
        const double divisor =
            temperature * (by_sequence ? static_cast<double>(problem.temperatures[i]) : 1.0);
        std::vector<double> x(5);
        std::vector<double> z(5);
        const auto compare = [&](const LogitsSource& given, const LogitsSource& transformed,
                                 double by_scale, double by_softcap) {
          given.read(t, 0, std::span<double>(x));
          transformed.read(t, 0, std::span<double>(z));
          for (std::size_t v = 0; v < 5; ++v) {
            ASSERT_NEAR(z[v], plain_z(x[v], by_scale, by_softcap, divisor), 1e-12) << t << " " << v;
          }
        };
        compare(problem.given_logits(), *problem.logits, scale, softcap);
        compare(*problem.given_teacher, *problem.teacher, 1, 0);
        // From hidden states the products are the given logits.
        hidden.logits->read(t, 0, std::span<double>(z));
        const float* states = hidden.projection->hidden_row(t);
        for (std::int64_t v = 0; v < 5; ++v) {
          double product = 0;
          for (int c = 0; c < 3; ++c) {
            product += static_cast<double>(states[c]) *
                       static_cast<double>(hidden.projection->weight_row(v)[c]);
          }
          ASSERT_NEAR(z[v], plain_z(product, scale, softcap, divisor), 1e-10) << t << " " << v;
        }
      }
    }
  }
}

TEST(PlainValues, KeptSetsAreThoseOfTheirDefinition) {
  std::mt19937 random(42);
  std::normal_distribution<double> normal;
  int partial = 0;
  for (int k = 0; k < 3000; ++k) {
    std::vector<double> z(1 + random() % 12);
    for (double& one : z) {
      // A third of the rows have few different logits, and so ties at every bound.
      one = k % 3 == 0 ? static_cast<double>(random() % 3) : 2 * normal(random);
      if (k % 5 == 0 && random() % 4 == 0) one = -std::numeric_limits<double>::infinity();
    }
    if (std::all_of(z.begin(), z.end(), [](double one) { return std::isinf(one); })) z[0] = 1;
    const std::int64_t top_k = random() % 2 == 0 ? 0 : 1 + random() % z.size();
    const double top_p =
        random() % 3 == 0 ? 1.0 : 0.01 + 0.97 * std::generate_canonical<double, 32>(random);
    std::vector<std::uint8_t> kept(z.size());
    filter_row(z, {top_k, top_p}, kept);
    const std::vector<int> want = plain_kept(z, static_cast<std::size_t>(top_k), top_p);
    ASSERT_EQ(std::vector<int>(kept.begin(), kept.end()), want)
        << fmt::format("top_k {} top_p {}", top_k, top_p);
    const auto count = std::count(want.begin(), want.end(), 1);
    partial += count > 1 && count < static_cast<std::int64_t>(z.size()) ? 1 : 0;
  }
  EXPECT_GT(partial, 500);
}

/// Sums in eighths, which are exact: top p with an exact sum leaves it out (docs: "above 1 - p").
TEST(PlainValues, KeptSetsAtExactSums) {
  const std::vector<double> eighths(8, 0.0);
  for (int eighth = 1; eighth < 8; ++eighth) {
    std::vector<std::uint8_t> kept(8);
    filter_row(eighths, {0, eighth / 8.0}, kept);
    for (int v = 0; v < 8; ++v) EXPECT_EQ(kept[v], v < eighth ? 1 : 0) << eighth << " " << v;
  }
}

/// Kept sets follow the temperatures; outside of them z is -inf; a target that a set leaves out is
/// masked, or has the log-probability 0.
TEST(PlainValues, KeptSetsOfACaseAreOfTransformedLogits) {
  std::mt19937 random(43);
  int outside = 0;
  for (int k = 0; k < 40; ++k) {
    const bool zero = k % 2 == 0;
    const double temperature = 0.5 * (1 + random() % 4);
    const std::string text = fmt::format(
        "lens=6+9 vocab=9 mask=all top_k={} top_p={} temperature={} sequence_temperatures={} "
        "filtered_targets={} seed={}",
        k % 3 == 0 ? 0 : 2 + k % 6, k % 3 == 1 ? 1.0 : 0.3 + 0.1 * (k % 5), temperature, k % 4 < 2,
        zero ? "zero" : "drop", k);
    SCOPED_TRACE(text);
    const Problem problem = problem_of(text);
    const std::vector<std::uint8_t> valid = problem.row_valid();
    std::int64_t counted = 0;
    for (std::int64_t i = 0, t = 0; i < 2; ++i) {
      for (std::int64_t o = 0; o < problem.lengths[i]; ++o, ++t) {
        std::vector<double> z(9);
        std::vector<double> masked(9);
        problem.given_logits().read(t, 0, std::span<double>(z));
        problem.logits->read(t, 0, std::span<double>(masked));
        const double own = k % 4 < 2 ? static_cast<double>(problem.temperatures[i]) : 1;
        for (double& one : z) one /= temperature * own;
        const auto want =
            plain_kept(z, static_cast<std::size_t>(problem.spec.top_k), problem.spec.top_p);
        for (std::size_t v = 0; v < 9; ++v) {
          ASSERT_EQ(problem.sampling_mask->keeps(t, static_cast<std::int64_t>(v)), want[v] == 1);
          if (want[v] == 1) {
            ASSERT_NEAR(masked[v], z[v], 1e-12);
          } else {
            ASSERT_EQ(masked[v], -std::numeric_limits<double>::infinity());
          }
        }
        if (o + 1 == problem.lengths[i]) continue;
        const bool is_outside = want[static_cast<std::size_t>(problem.input_ids[t + 1])] == 0;
        outside += is_outside ? 1 : 0;
        ASSERT_EQ(valid[t], !is_outside || zero ? 1 : 0) << t;
        counted += valid[t];
      }
    }
    EXPECT_EQ(problem.denominators.valid_tokens, counted);
    EXPECT_EQ(problem.zeroes_filtered_targets(), zero);
  }
  EXPECT_GT(outside, 20);
}

}  // namespace
}  // namespace lossgrid
