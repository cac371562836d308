// SPDX-License-Identifier: Apache-2.0
// Plain loops and the Highway kernels that are compared with them agree up to rounding, also for an
// odd number of columns.
#include "harness/gbench/plain_kernels.h"

#include <gtest/gtest.h>

#include "impls/kernels/rows.h"

namespace lossgrid {
namespace {

template <typename T>
class PlainKernels : public testing::Test {
 protected:
  void expect_same() {
    for (std::size_t r = 0; r < kBenchmarkRows; ++r) {
      const auto log_sum = [&](KernelRows<T>& rows) {
        return rows.shift[r] + std::log(rows.sum[r]);
      };
      EXPECT_NEAR(log_sum(plain), log_sum(highway), 1e-5);
      EXPECT_NEAR(plain.shift[r] + plain.target[r], highway.shift[r] + highway.target[r], 1e-5);
    }
  }
  /// Tolerance: one rounding to the dtype each.
  void expect_same_gradient() {
    for (std::size_t i = 0; i < plain.gradient.size(); ++i) {
      const auto x = static_cast<double>(plain.gradient[i]);
      const double bound = (2 * unit_roundoff(DTypeOf<T>::value) + 1e-5) * std::abs(x);
      ASSERT_NEAR(x, static_cast<double>(highway.gradient[i]), bound) << i;
    }
  }
  KernelRows<T> plain{777};
  KernelRows<T> highway{777};
};

using Types = testing::Types<float, bf16>;
TYPED_TEST_SUITE(PlainKernels, Types);

TYPED_TEST(PlainKernels, StatisticsThenGradient) {
  plain::statistics(this->plain);
  rows_statistics(this->highway.view, this->highway.statistics());
  this->expect_same();
  plain::gradient(this->plain);
  rows_gradient(this->highway.view, {this->highway.shift.data(), this->highway.sum.data()},
                {this->highway.grad.data()}, this->highway.gradient.data());
  this->expect_same_gradient();
}

TYPED_TEST(PlainKernels, Sweep) {
  plain::sweep(this->plain);
  KernelRows<TypeParam>& rows = this->highway;
  std::vector<float> scratch(static_cast<std::size_t>(
      forward_backward_scratch_floats(DTypeOf<TypeParam>::value, rows.view.shard, false)));
  rows_forward_backward(rows.view, rows.grad.data(), scratch, rows.statistics(),
                        rows.gradient.data());
  this->expect_same();
  this->expect_same_gradient();
}

}  // namespace
}  // namespace lossgrid
