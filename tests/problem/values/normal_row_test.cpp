// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/normal_row.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "kernel_targets.h"

namespace lossgrid {
namespace {

std::vector<float> row(std::uint64_t token, std::int64_t begin, std::int64_t end,
                       std::uint64_t seed = 42, std::uint32_t stream = 5) {
  std::vector<float> out(static_cast<std::size_t>(end - begin), -12345.0f);
  fill_normals(seed, stream, token, begin, out);
  return out;
}

TEST(NormalRow, AnyPieceIsThePieceOfTheRow) {
  const std::vector<float> whole = row(3, 0, 700);
  for (std::int64_t begin : {0, 1, 15, 16, 63, 64, 65, 200}) {
    for (std::int64_t size : {0, 1, 2, 63, 64, 65, 300}) {
      EXPECT_EQ(row(3, begin, begin + size),
                std::vector<float>(whole.begin() + begin, whole.begin() + begin + size));
    }
  }
}

TEST(NormalRow, RowsSeedsStreamsAndColumnsDiffer) {
  const std::vector<float> base = row(3, 0, 64);
  EXPECT_NE(base, row(4, 0, 64));
  EXPECT_NE(base, row(3 + (std::uint64_t{1} << 32), 0, 64));
  EXPECT_NE(base, row(3, 0, 64, 43));
  EXPECT_NE(base, row(3, 0, 64, 42 + (std::uint64_t{1} << 32)));
  EXPECT_NE(base, row(3, 0, 64, 42, 6));
  EXPECT_NE(base, row(3, 64, 128));
}

TEST(NormalRow, IsThePolarFormOfPhiloxWords) {
  // Column 16 w + k of a tile of 64 is made from word w of its block k.
  const RandomStream words(42, 5);
  for (std::uint64_t token = 0; token < 50; ++token) {
    const std::vector<float> values = row(token, 0, 640);
    for (std::uint32_t block = 0; block < 160; ++block) {
      const PhiloxBlock word = words.block(token, block);
      for (int pair = 0; pair < 2; ++pair) {
        const std::size_t at = block / 16 * 64 + 32 * pair + block % 16;
        const double radius = std::sqrt(-2 * std::log(((word[2 * pair] >> 8) + 1) * 0x1p-24));
        const double turn = (word[2 * pair + 1] >> 6) * 0x1p-26 - 0.125;
        ASSERT_NEAR(values[at], radius * std::cos(2 * M_PI * turn), 4e-6);
        ASSERT_NEAR(values[at + 16], radius * std::sin(2 * M_PI * turn), 4e-6);
      }
    }
  }
}

TEST(NormalRow, HasARadiusOfZeroWhereTheWordIsLargest) {
  ASSERT_EQ(RandomStream(42, 5).block(191, 441)[2] >> 8, 0xffffffu);  // one word in 2^24
  EXPECT_EQ(row(191, 1769, 1770)[0], 0);
  EXPECT_EQ(row(191, 1785, 1786)[0], 0);
}

TEST(NormalRow, HasTheMomentsOfANormalDistribution) {
  double sums[5] = {};
  constexpr std::int64_t kCount = 2'000'000;
  for (const float value : row(7, 0, kCount)) {
    const double x = value;
    for (int power = 1; power <= 4; ++power) sums[power] += std::pow(x, power);
    ASSERT_LT(std::abs(x), 5.8);
  }
  EXPECT_NEAR(sums[1] / kCount, 0, 4e-3);
  EXPECT_NEAR(sums[2] / kCount, 1, 6e-3);
  EXPECT_NEAR(sums[3] / kCount, 0, 2e-2);
  EXPECT_NEAR(sums[4] / kCount, 3, 4e-2);
}

class NormalRowOf : public OnEveryTarget {};

TEST_P(NormalRowOf, HasTheSameBitsOnEveryInstructionSet) {
  const std::vector<float> here = row(3, 5, 100'000);
  hwy::SetSupportedTargetsForTest(HWY_SCALAR);
  hwy::GetChosenTarget().Update(HWY_SCALAR);
  EXPECT_EQ(row(3, 5, 100'000), here);
}

INSTANTIATE_TEST_SUITE_P(Targets, NormalRowOf, testing::ValuesIn(targets_here()), target_name);

}  // namespace
}  // namespace lossgrid
