// SPDX-License-Identifier: Apache-2.0
#include "harness/core/philox.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

// Known answers of Random123, file kat_vectors, lines "philox4x32 10".
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Every argument reaches the block in its own place.
TEST(RandomStream, ArgumentsHavePlacesOfTheirOwn) {
  const RandomStream stream(0x299f31d0a4093822u, 0x03707344);
  EXPECT_EQ(stream.block(0x85a308d3243f6a88u, 0x13198a2e),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, ColumnsAreThoseOfTheirBlock) {
  const RandomStream stream(5, 6);
  for (std::uint32_t column = 0; column < 12; ++column) {
    const std::uint32_t word = stream.block(7, column / 4)[column % 4];
    EXPECT_EQ(stream.uniform(7, column), word / 4294967296.0);
    EXPECT_EQ(stream.below(1000, 7, column), std::uint64_t{word} * 1000 >> 32);
    EXPECT_EQ(stream.normal(7, column), stream.normals(7, column / 4)[column % 4]);
  }
}

// Close seeds, streams, rows and columns give different values.
TEST(RandomStream, NeighboursDiffer) {
  std::set<double> seen;
  std::size_t drawn = 0;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32}) {
    for (const std::uint32_t stream : {0u, 1u}) {
      for (const std::uint64_t row : {0ull, 1ull, 1ull << 32}) {
        for (std::uint32_t column = 0; column < 8; ++column, ++drawn) {
          seen.insert(RandomStream(seed, stream).uniform(row, column));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), drawn);
}

TEST(RandomStream, BelowIsUniform) {
  const RandomStream stream(1, 2);
  std::array<int, 7> counts{};
  constexpr int kDraws = 70000;
  for (std::uint32_t i = 0; i < kDraws; ++i) ++counts.at(stream.below(7, i / 100, i % 100));
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 1e4) * (count - 1e4) / 1e4;
  EXPECT_LT(chi_squared, 27.0);  // 6 degrees of freedom: exceeded once in 7000 draws
  EXPECT_EQ(stream.below(1, 3, 4), 0u);
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments out;
  const auto n = static_cast<double>(values.size());
  for (const double x : values) out.mean += x / n;
  for (const double x : values) out.variance += (x - out.mean) * (x - out.mean) / n;
  for (const double x : values) {
    const double z = (x - out.mean) / std::sqrt(out.variance);
    out.skewness += z * z * z / n;
    out.kurtosis += z * z * z * z / n;
  }
  return out;
}

// Bounds are five standard errors of the estimates from n normal values.
TEST(RandomStream, UniformMoments) {
  constexpr std::size_t kCount = 400000;
  const RandomStream stream(11, 12);
  std::vector<double> values;
  for (std::size_t i = 0; i < kCount; ++i) {
    values.push_back(stream.uniform(i / 1000, static_cast<std::uint32_t>(i % 1000)));
    ASSERT_GE(values.back(), 0.0);
    ASSERT_LT(values.back(), 1.0);
  }
  const Moments m = moments_of(values);
  EXPECT_NEAR(m.mean, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(m.variance, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kCount));
}

TEST(RandomStream, NormalMomentsAndIndependence) {
  constexpr std::size_t kBlocks = 100000;
  constexpr auto kCount = static_cast<double>(4 * kBlocks);
  const RandomStream stream(21, 22);
  std::vector<double> values;
  std::array<std::array<double, 4>, 4> products{};
  std::array<std::array<double, 4>, 4> square_products{};
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::array<float, 4> x = stream.normals(i / 50, static_cast<std::uint32_t>(i % 50));
    for (std::size_t a = 0; a < 4; ++a) {
      ASSERT_TRUE(std::isfinite(x[a]));
      values.push_back(x[a]);
      for (std::size_t b = 0; b < a; ++b) {
        products[a][b] += double{x[a]} * x[b] / kBlocks;
        square_products[a][b] += (x[a] * x[a] - 1.0) * (x[b] * x[b] - 1.0) / kBlocks;
      }
    }
  }
  const Moments m = moments_of(values);
  EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(kCount));
  EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2 / kCount));
  EXPECT_NEAR(m.skewness, 0, 5 * std::sqrt(6 / kCount));
  EXPECT_NEAR(m.kurtosis, 3, 5 * std::sqrt(24 / kCount));
  // The two values of a pair share a radius: a wrong pairing shows in the product of the squares.
  for (std::size_t a = 0; a < 4; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_NEAR(products[a][b], 0, 5 / std::sqrt(double{kBlocks})) << a << ' ' << b;
      EXPECT_NEAR(square_products[a][b], 0, 5 * 2 / std::sqrt(double{kBlocks})) << a << ' ' << b;
    }
  }
  const double tail = static_cast<double>(
      std::count_if(values.begin(), values.end(), [](double x) { return std::abs(x) > 3; }));
  EXPECT_NEAR(tail, 0.0026998 * kCount, 5 * std::sqrt(0.0026998 * kCount));
}

}  // namespace
}  // namespace lossgrid
