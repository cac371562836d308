// SPDX-License-Identifier: Apache-2.0
// The kernel whose rows are shared by the blocks of a cluster, thread by thread, against formulas
// in float64.
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "fibers/fiber_cluster.h"
#include "harness/core/philox.h"
#include "harness/device/kernel/rows_on_chip.h"
#include "impls/kernels/cuda/row_kernels-inl.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kRows = 4;  // the second predicts nothing, the third has no gradient

template <typename T>
struct Rows {
  explicit Rows(std::int64_t columns) : columns(columns), width(columns + 3) {
    const RandomStream random(11, 3);
    for (std::int64_t k = 0; k < kRows * width; ++k) {
      const std::uint32_t word = random.block(static_cast<std::uint64_t>(k), 0)[0];
      logits.push_back(T(static_cast<float>(word) * 0x1p-29f - 4.0f));
    }
    targets = {static_cast<std::int32_t>(columns / 2 + 1), -1, 0,
               static_cast<std::int32_t>(columns - 1)};
  }

  std::int64_t columns;
  std::int64_t width;
  std::vector<T> logits;
  std::vector<std::int32_t> targets;
  std::vector<float> grad = {0.5f, 0.0f, 0.0f, -0.25f};
};

/// Expects the results of the kernel on clusters of `blocks` blocks that have room for `turns`
/// vectors of each thread.
template <typename T>
void expect_right(std::int64_t columns, int blocks, std::int64_t turns, bool in_place,
                  std::uint64_t seed) {
  Rows<T> rows(columns);
  const RowsOnChip shape = rows_on_chip(columns / kVectorSize<T>, turns * kBlockThreads, blocks);
  ASSERT_EQ(shape.blocks, blocks);
  std::vector<T> logits = rows.logits;
  std::vector<T> gradient(logits.size(), T(77.0f));
  std::vector<float> shift(kRows);
  std::vector<float> sum(kRows);
  std::vector<float> target(kRows);
  CudaRows given{};
  given.data = logits.data();
  given.rows = kRows;
  given.width = rows.width;
  given.columns = columns;
  given.targets = rows.targets.data();
  CudaRowStatistics out{};
  out.shift = shift.data();
  out.sum = sum.data();
  out.target = target.data();
  T* const written = in_place ? logits.data() : gradient.data();
  const ForwardBackwardKernel<T> kernel{{given}, rows.grad.data(), out, written, shape.kept};
  run_in_clusters(kernel, kRows, blocks, static_cast<std::size_t>(shape.shared_bytes), seed);

  for (std::int64_t r = 0; r < kRows; ++r) {
    const T* const x = rows.logits.data() + r * rows.width;
    const auto k = static_cast<std::size_t>(r);
    double most = -INFINITY;
    for (std::int64_t c = 0; c < columns; ++c)
      most = std::max(most, static_cast<double>(float(x[c])));
    double exponentials = 0;
    for (std::int64_t c = 0; c < columns; ++c) exponentials += std::exp(float(x[c]) - most);
    const std::int64_t y = rows.targets[k];
    if (y >= 0) {
      EXPECT_EQ(shift[k], static_cast<float>(most));
      EXPECT_NEAR(sum[k], exponentials, 1e-5 * exponentials);
      EXPECT_NEAR(target[k], float(x[y]) - most, 1e-6);
    }
    const double unit = sizeof(T) == 2 ? 0x1p-8 : 1e-5;
    for (std::int64_t c = 0; c < rows.width; ++c) {
      const double p = c < columns ? std::exp(float(x[c]) - most) / exponentials : 0.0;
      const double want = c < columns ? rows.grad[k] * ((c == y ? 1.0 : 0.0) - p) : 0.0;
      ASSERT_NEAR(float(written[r * rows.width + c]), want, unit * std::abs(want) + 1e-12)
          << "row " << r << ", column " << c;
    }
  }
}

/// Builds for the sanitizer of threads have too few fibers for a cluster.
class Cluster : public testing::Test {
 protected:
  void SetUp() override {
    if (LOSSGRID_TSAN) GTEST_SKIP() << "255 fibers are one block";
  }
};

TEST_F(Cluster, SharesARowInAnyOrderOfItsThreads) {
  for (const std::uint64_t seed : {1, 2}) {
    for (const bool in_place : {false, true}) {
      expect_right<float>(4 * kBlockThreads * 4 + 1003, 2, 3, in_place, seed);
      expect_right<bf16>(4 * kBlockThreads * 8 * 3 + 17, 4, 4, in_place, seed);
    }
  }
}

TEST_F(Cluster, ReadsAgainWhatDoesNotFit) {
  expect_right<float>(2 * kBlockThreads * 4 * 3 + 5, 2, 1, true, 3);
  expect_right<bf16>(2 * kBlockThreads * 8 * 6 + 5, 2, 2, false, 4);
}

}  // namespace
}  // namespace lossgrid
