// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/checks/failed_elements.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lossgrid {
namespace {

FailedElements scaled(DType out, double factor, double noise = 0) {
  FailedElements failed;
  for (int k = 1; k <= 40; ++k) {
    const double want = (k % 2 == 0 ? 1 : -1) * (0.1 + 0.01 * k + 1e-5);
    const double got = round_to(out, factor * want * (1 + (k % 3 - 1) * noise));
    failed.add(got, want, got, out);
  }
  return failed;
}

TEST(FailedElements, HaveACommonFactorWhereTheErrorIsAMultiple) {
  for (const double factor : {2.0, 0.5, -1.0, 1.0001}) {
    EXPECT_NEAR(scaled(DType::f32, factor).common_factor().value(), factor, 1e-6) << factor;
  }
  EXPECT_NEAR(scaled(DType::bf16, 1.02).common_factor().value(), 1.02, 2e-3);
  EXPECT_EQ(scaled(DType::f32, 0).common_factor(), 0.0);
}

TEST(FailedElements, TheRestOfAMultipleIsTwoRoundingsAtMost) {
  // Twice the truth, one element above and one below it: the rest is sqrt(8) times that.
  const auto has_factor = [](DType out, double apart) {
    FailedElements failed;
    for (const double sign : {1.0, -1.0}) {
      const double got = 2 * (1 + sign * apart);
      failed.add(got, 1, got, out);
    }
    return failed.common_factor().has_value();
  };
  EXPECT_TRUE(has_factor(DType::bf16, 1.95 * 0x1p-8));
  EXPECT_FALSE(has_factor(DType::bf16, 2.05 * 0x1p-8));
  // In float32 a hundredth of the error, sqrt(2), is more.
  EXPECT_TRUE(has_factor(DType::f32, 0.0049));
  EXPECT_FALSE(has_factor(DType::f32, 0.0051));
}

TEST(FailedElements, HaveNoCommonFactorWhereTheErrorIsNone) {
  EXPECT_FALSE(scaled(DType::f32, 1, 1e-3).common_factor());
  EXPECT_FALSE(scaled(DType::f32, 2, 0.05).common_factor());
  FailedElements with_nan = scaled(DType::f32, 2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  with_nan.add(nan, 1, nan, DType::f32);
  EXPECT_FALSE(with_nan.common_factor());
  EXPECT_FALSE(FailedElements().common_factor());
  FailedElements infinite;
  const double infinity = std::numeric_limits<double>::infinity();
  infinite.add(infinity, 1, infinity, DType::f32);
  infinite.got_squared = infinite.got_want = 0;  // only the count shows it
  FailedElements merged = scaled(DType::f32, 2);
  merged.add(infinite);
  EXPECT_FALSE(merged.common_factor());
}

TEST(FailedElements, SeeNumbersOfBfloat16) {
  FailedElements failed;
  for (int k = 0; k < 8; ++k) {
    const double want = 0.3 + 0.1 * k + 1e-5;
    const double got = round_to(DType::bf16, want);
    // A gradient that is added to the contents of its buffer.
    failed.add(got - 0.25, want - 0.25, got, DType::f32);
    EXPECT_EQ(failed.are_bf16(), k == 7);
  }
  failed.add(0, 0.3, 0, DType::f32);       // holds 0
  failed.add(0.5, 0.25, 0.5, DType::f32);  // the truth is one too
  EXPECT_TRUE(failed.are_bf16());
  EXPECT_EQ(failed.bits_compared, 8);
  failed.add(0.3f, 0.4f, 0.3f, DType::f32);
  EXPECT_FALSE(failed.are_bf16());
  EXPECT_FALSE(scaled(DType::bf16, 2).are_bf16());  // as it should hold
}

TEST(FailedElements, AddUp) {
  FailedElements all = scaled(DType::f32, 2);
  FailedElements other;
  other.add(0, 1, 0, DType::f32);
  other.add_nan_row(7);
  other.add_nan_row(3);
  other.add_nan_row(7);
  all.add_nan_row(5);
  all.add(other);
  EXPECT_EQ(all.count, 41);
  EXPECT_EQ(all.zero, 1);
  EXPECT_THAT(all.nan_rows, testing::ElementsAre(3, 5, 7));
  EXPECT_FALSE(all.common_factor());
}

}  // namespace
}  // namespace lossgrid
