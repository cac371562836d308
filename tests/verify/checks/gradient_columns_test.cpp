// SPDX-License-Identifier: Apache-2.0
// The vectorised comparison against the plain one: GradientBound and BiasSums, column by column.
#include "harness/verify/checks/gradient_columns.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "harness/verify/checks/shard_checks.h"
#include "kernel_targets.h"

namespace lossgrid {
namespace {

class GradientColumnsOf : public OnEveryTarget {};

template <typename T>
struct Row {
  explicit Row(std::size_t count) : logits(count), got(count) {
    const RandomStream random(11, 0);
    for (std::size_t k = 0; k < count; ++k) logits[k] = 10 * random.uniform(k);
    if (count > 3) logits[3] = -std::numeric_limits<double>::infinity();
    logits.push_back(4.5);  // the target, which is not among the columns
    truth = row_truth(logits, static_cast<std::int32_t>(count));
    truth.mean_error = 1e-9;
    logits.pop_back();
    for (std::size_t k = 0; k < count; ++k) {
      got[k] = T(static_cast<float>(want(k) * (1 + 1e-7 * random.uniform(count + k))));
    }
  }
  double p(std::size_t k) const { return std::exp(logits[k] - truth.max) / truth.sum; }
  double want(std::size_t k) const { return -grad.value * p(k); }
  double bound_of(std::size_t k) const {
    return bound.rounding(want(k), logits[k], p(k), false) +
           bound.computation(logits[k], p(k), false) + bound.objective(logits[k], p(k), false);
  }
  std::vector<std::int32_t> suspects(double allowed) const {
    GradientColumnSums sums;
    return compare(allowed, sums);
  }
  std::vector<std::int32_t> compare(double allowed, GradientColumnSums& sums) const {
    std::vector<std::int32_t> suspects;
    compare_columns(
        {bound, truth.max, truth.sum, grad.value, logits, got.data(), DTypeOf<T>::value}, allowed,
        sums, suspects);
    return suspects;
  }

  std::vector<double> logits;
  std::vector<T> got;
  RowTruth truth;
  Enclosure grad = Enclosure::around(-0.125, 1e-9);
  GradientBound bound{truth, grad, DTypeOf<T>::value, 22};
};

template <typename T>
void expect_plain_sums() {
  for (std::size_t count = 0; count < 40; ++count) {
    Row<T> row(count);
    row.bound = GradientBound(row.truth, row.grad, DTypeOf<T>::value, 22);
    GradientColumnSums want;
    BiasSums bias;
    for (std::size_t k = 0; k < count; ++k) {
      const double value = static_cast<double>(row.got[k]);
      const double computation = row.bound.computation(row.logits[k], row.p(k), false);
      want.values += value;
      want.bounds += row.bound.rounding(row.want(k), row.logits[k], row.p(k), false) + computation;
      want.computation_times_truth += computation * std::abs(row.want(k));
      bias.add_element(DTypeOf<T>::value, value, row.want(k), row.want(k), computation,
                       row.bound.objective(row.logits[k], row.p(k), false));
    }
    GradientColumnSums got;
    EXPECT_TRUE(row.compare(1.0, got).empty()) << count;
    EXPECT_NEAR(got.values, want.values, 1e-13 * std::abs(want.values));
    EXPECT_NEAR(got.bounds, want.bounds, 1e-13 * want.bounds);
    EXPECT_NEAR(got.computation_times_truth, want.computation_times_truth,
                1e-13 * want.computation_times_truth);
    EXPECT_NEAR(got.out_truth, bias.out_truth, 1e-13 * bias.out_truth);
    EXPECT_NEAR(got.rounded_truth, bias.rounded_truth, 1e-13 * bias.rounded_truth);
    // A step of rounding may fall to the other side of a middle.
    EXPECT_NEAR(got.shared, bias.shared, 1e-9 * bias.shared);
  }
}

// Truths in the middle of two numbers of bfloat16.
TEST_P(GradientColumnsOf, RoundMiddlesToEven) {
  for (const double want : {1 + 0x1p-8, 1 + 3 * 0x1p-8}) {
    Row<bf16> row(31);
    std::fill(row.logits.begin(), row.logits.end(), 4.5);  // 32 with the target: p = 1 / 32
    row.truth.max = 4.5;
    row.truth.sum = 32;
    row.grad = Enclosure::around(-32 * want, 0);
    row.bound = GradientBound(row.truth, row.grad, DType::bf16, 22);
    std::fill(row.got.begin(), row.got.end(), bf16(static_cast<float>(want)));
    GradientColumnSums sums;
    row.compare(1.0, sums);
    double rounded_truth = 0;
    for (std::size_t k = 0; k < 31; ++k) rounded_truth += round_to(DType::bf16, want) * want;
    EXPECT_EQ(round_to(DType::bf16, want), want < 1.01 ? 1 : 1 + 0x1p-6);
    EXPECT_NEAR(sums.rounded_truth, rounded_truth, 1e-13 * rounded_truth) << want;
  }
}

TEST_P(GradientColumnsOf, AddUpAsThePlainFormulas) {
  expect_plain_sums<double>();
  expect_plain_sums<float>();
  expect_plain_sums<bf16>();
}

template <typename T>
void expect_suspects() {
  for (const std::size_t bad : {std::size_t{0}, std::size_t{3}, std::size_t{8}, std::size_t{18}}) {
    Row<T> row(19);
    row.bound = GradientBound(row.truth, row.grad, DTypeOf<T>::value, 22);
    const T right = row.got[bad];
    const auto is_suspect = [&](double value, double allowed) {
      row.got[bad] = T(static_cast<float>(value));
      const std::vector<std::int32_t> found = row.suspects(allowed);
      row.got[bad] = right;
      return std::set<std::int32_t>(found.begin(), found.end())
          .contains(static_cast<std::int32_t>(bad));
    };
    const double want = row.want(bad);
    const double bound = row.bound_of(bad);
    EXPECT_TRUE(is_suspect(want + 2.5 * bound, 1.0)) << bad;
    EXPECT_TRUE(is_suspect(want - 2.5 * bound, 1.0)) << bad;
    EXPECT_TRUE(is_suspect(want + 2.5 * bound, 0.25)) << bad;
    EXPECT_TRUE(is_suspect(std::numeric_limits<double>::quiet_NaN(), 1.0)) << bad;
    EXPECT_TRUE(is_suspect(std::numeric_limits<double>::infinity(), 1.0)) << bad;
    EXPECT_FALSE(is_suspect(static_cast<double>(right), 1.0)) << bad;
  }
}

TEST_P(GradientColumnsOf, SortOutWhatMayBeWrong) {
  expect_suspects<double>();
  expect_suspects<float>();
  expect_suspects<bf16>();
}

INSTANTIATE_TEST_SUITE_P(Targets, GradientColumnsOf, testing::ValuesIn(targets_here()),
                         target_name);

}  // namespace
}  // namespace lossgrid
