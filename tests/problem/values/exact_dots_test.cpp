// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/exact_dots.h"

#include <vector>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "kernel_targets.h"

namespace lossgrid {
namespace {

/// Returns numbers of float32 with all 24 bits, of both signs and many magnitudes.
std::vector<float> numbers(std::uint64_t row, std::int64_t count) {
  const RandomStream words(7, 1);
  std::vector<float> out;
  for (std::int64_t k = 0; k < count; ++k) {
    const PhiloxBlock block = words.block(row, static_cast<std::uint32_t>(k));
    const float magnitude = static_cast<float>(1 << (block[1] % 20));
    out.push_back(static_cast<float>(static_cast<std::int32_t>(block[0])) * 0x1p-31f / magnitude);
  }
  return out;
}

/// Returns the sum by eight in turn, each product rounded to float64 before it is added.
double plain(const std::vector<float>& x, const std::vector<float>& w) {
  volatile double sums[8] = {};
  for (std::size_t k = 0; k < x.size(); ++k) {
    const volatile double product = static_cast<double>(x[k]) * static_cast<double>(w[k]);
    sums[k % 8] = sums[k % 8] + product;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

class ExactDots : public OnEveryTarget {};

TEST_P(ExactDots, HaveTheBitsOfAPlainLoop) {
  for (const std::int64_t size : {0, 1, 7, 8, 9, 64, 257}) {
    const std::vector<float> w = numbers(100, size);
    std::vector<double> rows;
    std::vector<double> want;
    for (std::uint64_t r = 0; r < static_cast<std::uint64_t>(kDotsAtOnce); ++r) {
      const std::vector<float> x = numbers(r, size);
      rows.insert(rows.end(), x.begin(), x.end());
      want.push_back(plain(x, w));
      EXPECT_EQ(exact_dot(x.data(), w.data(), size), want.back()) << size;
    }
    std::vector<double> got(static_cast<std::size_t>(3 * kDotsAtOnce), -1.0);
    exact_dots(rows.data(), w.data(), size, got.data(), 3);
    for (std::size_t r = 0; r < want.size(); ++r) {
      EXPECT_EQ(got[3 * r], want[r]) << size << ", row " << r;
      EXPECT_EQ(got[3 * r + 1], -1.0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ExactDots, testing::ValuesIn(targets_here()), target_name);

}  // namespace
}  // namespace lossgrid
