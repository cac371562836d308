// SPDX-License-Identifier: Apache-2.0
// The bound of gradients of hidden states and weight is the formula in its header, line by line.
#include "harness/verify/truth/linear_bounds.h"

#include <cmath>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

constexpr double kU32 = 0x1p-24;
constexpr double kU16 = 0x1p-8;

LinearRows one_element() {
  LinearRows rows;
  rows.rows = {0};
  rows.terms = 16;
  rows.want = {-0.25};
  rows.spread = {0.5};
  rows.magnitude = {3};
  rows.radius = {1e-4};
  rows.rounded = {-0.2505};
  return rows;
}

Truth truth_with(double grad_logprob) {
  Truth truth;
  truth.objective.grad_logprob = {0.0, grad_logprob};
  return truth;
}

TEST(LinearBound, InFloat32) {
  const LinearBound bound(truth_with(0.5), DType::f32, DType::f32, 0);
  const LinearRows rows = one_element();
  EXPECT_EQ(bound.baseline(rows, 0), -0.25);
  EXPECT_DOUBLE_EQ(bound.independent(rows, 0, rows.want[0]), kU32 * (0.25 + 0.5));
  const double products = kU32 * (4 * 3 + 3 * 4 * (0.5 + 0.25));
  EXPECT_DOUBLE_EQ(bound.products(rows, 0, 0), products);
  EXPECT_DOUBLE_EQ(bound.common(rows, 0, 0), products + bound.radius(rows, 0));
  EXPECT_DOUBLE_EQ(bound.element(rows, 0, -0.25, 0),
                   3 * kU32 * 0.75 + products + bound.radius(rows, 0));
  EXPECT_DOUBLE_EQ(bound.element(rows, 0, 2.5, 0),
                   3 * kU32 * 3.0 + products + bound.radius(rows, 0));
}

TEST(LinearBound, InBf16KnowsWhatRoundingAdds) {
  const LinearBound bound(truth_with(0.5), DType::bf16, DType::bf16, 0);
  LinearRows rows = one_element();
  EXPECT_EQ(bound.baseline(rows, 0), -0.2505);
  EXPECT_DOUBLE_EQ(bound.independent(rows, 0, -0.25), kU16 * 0.75);
  const double others = bound.products(rows, 0, 0) + bound.radius(rows, 0);
  EXPECT_DOUBLE_EQ(bound.common(rows, 0, 0), 0.0005 + others);
  const LinearBound converted(truth_with(0.5), DType::bf16, DType::f32, 0);
  EXPECT_DOUBLE_EQ(converted.common(rows, 0, 0),
                   bound.products(rows, 0, 0) + converted.radius(rows, 0));
  EXPECT_DOUBLE_EQ(converted.independent(rows, 0, -0.25), kU16 * 0.25 + kU32 * 0.5);
  rows.rounded.clear();
  EXPECT_EQ(bound.baseline(rows, 0), -0.25);
}

/// A row that may be on the other side of a switch: 0 is the truth, the radius is right, and so is
/// its rounding.
TEST(LinearBound, CountsRoundingsOfTheRadius) {
  LinearRows rows = one_element();
  rows.want = rows.spread = rows.magnitude = rows.rounded = {0};
  rows.radius = {0.75};
  const LinearBound f32(truth_with(0.5), DType::f32, DType::f32, 0);
  EXPECT_DOUBLE_EQ(f32.radius(rows, 0), 0.75 * (1 + 6 * kU32 + kU32 * (4 + 3 * 4)));
  const LinearBound bf16(truth_with(0.5), DType::bf16, DType::bf16, 0);
  EXPECT_GE(bf16.element(rows, 0, 0, 0), 0.75 * (1 + kU16) * (1 + kU16));
  EXPECT_LT(bf16.element(rows, 0, 0, 0), 0.75 * 1.03);
}

TEST(LinearBound, CountsAdditionsToABuffer) {
  const LinearBound bound(truth_with(0.5), DType::f32, DType::f32, 9);
  EXPECT_DOUBLE_EQ(bound.products(one_element(), 0, -2),
                   kU32 * (4 * (3 + 2) + 3 * (std::sqrt(16 + 9) * 0.75 + 3 * 2)));
}

TEST(LinearBound, CountsRoundingsOfLogits) {
  const LinearBound bound(truth_with(0.5), DType::bf16, DType::bf16, 0);
  LinearRows rows = one_element();
  const double others = bound.common(rows, 0, 0);
  rows.logit_rounding = {0.01};
  EXPECT_DOUBLE_EQ(bound.common(rows, 0, 0), others + 3 * 0.01);
  EXPECT_DOUBLE_EQ(bound.independent(rows, 0, -0.25), kU16 * 0.75);
}

TEST(LinearBound, CountsRoundingsOfThePartsOfAWeight) {
  const Truth truth = truth_with(0.5);
  const LinearRows rows = one_element();
  DeclaredRoundings declared;
  const double exact = LinearBound::of_weight(truth, declared).independent(rows, 0, -0.25);
  declared.weight_sum = declared.weight_part = DType::bf16;
  const double once = exact + (kU16 - kU32) * 0.25;
  EXPECT_DOUBLE_EQ(LinearBound::of_weight(truth, declared).independent(rows, 0, -0.25), once);
  const LinearBound rounded = LinearBound::of_weight(truth, declared);
  EXPECT_TRUE(rounded.is_rounded_once());
  EXPECT_DOUBLE_EQ(rounded.element(rows, 0, -0.25, 0),
                   kU16 * 0.25 + (1 + kU16) * (3 * kU32 * 0.5 + rounded.common(rows, 0, 0)));
  EXPECT_DOUBLE_EQ(rounded.mean_square_rounding(rows, 0, -0.25),
                   (kU16 * kU16 * 0.0625 + kU32 * kU32 * 0.25) / 3);
  declared.weight_parts = 9;
  EXPECT_FALSE(LinearBound::of_weight(truth, declared).is_rounded_once());
  EXPECT_DOUBLE_EQ(LinearBound::of_weight(truth, declared).independent(rows, 0, -0.25),
                   once + 3 * kU16 * (0.5 + 0.25));
}

TEST(LinearBound, IsNeverBelowWhatUnderflows) {
  LinearRows rows = one_element();
  rows.want = rows.spread = rows.magnitude = rows.radius = rows.rounded = {0};
  EXPECT_EQ(LinearBound(truth_with(0.5), DType::f32, DType::f32, 1).element(rows, 0, 0, 0),
            kVanishingF32);
  EXPECT_EQ(LinearBound(truth_with(-8), DType::f32, DType::f32, 1).element(rows, 0, 0, 0),
            8 * kVanishingF32);
}

}  // namespace
}  // namespace lossgrid
