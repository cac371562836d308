// SPDX-License-Identifier: Apache-2.0
// Statistics of a product by tiles, on an emulated GPU, beside sums over the logits in float64.
#include "impls/kernels/product_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/philox.h"
#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"
#include "harness/device/memory/host_view.h"
#include "impls/kernels/cuda/product_kernels-inl.h"

namespace lossgrid {
namespace {

constexpr std::int64_t kFirstId = 1000;

/// A product, and its statistics by tiles.
class TiledProduct {
 public:
  TiledProduct(std::int64_t rows, std::int64_t columns, std::int64_t size)
      : rows_(rows), columns_(columns), size_(size) {
    const RandomStream random(11, 1);
    const auto draw = [&](std::vector<float>& values, std::int64_t count, std::uint64_t offset) {
      for (std::int64_t k = 0; k < count; ++k) {
        const double drawn = random.uniform(offset + static_cast<std::uint64_t>(k));
        values.push_back(static_cast<float>(bf16(static_cast<float>(4 * drawn - 2))));
      }
    };
    draw(hidden, rows * size, 0);
    draw(weight, columns * size, std::uint64_t{1} << 32);
    // Targets of all places, of other shards, and rows that predict nothing.
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t id = r % 7 == 3 ? -1 : kFirstId - 2 + r * 37 % (columns + 4);
      targets.push_back(static_cast<std::int32_t>(id));
      valid.push_back(r % 5 != 0 && id >= 0 ? 1 : 0);
    }
  }

  /// Returns the owned targets.
  std::int64_t run(DType hidden_dtype = DType::bf16) {
    const auto device = make_emulated_device();
    const Buffer left = tensor(*device, hidden, hidden_dtype);
    const Buffer right = tensor(*device, weight, DType::bf16);
    Buffer tiles = device->allocate(
        static_cast<std::size_t>(product_tile_floats(rows_, columns_)) * sizeof(float), "tiles",
        MemorySpace::device);
    for (auto* column : {&shift, &sum, &target}) {
      column->assign(static_cast<std::size_t>(rows_), -77.0f);
    }
    const std::int64_t owned = product_statistics({*device,
                                                   hidden_dtype,
                                                   left.data(),
                                                   reinterpret_cast<const bf16*>(right.data()),
                                                   rows_,
                                                   size_,
                                                   alpha,
                                                   {kFirstId, kFirstId + columns_, columns_},
                                                   targets.data(),
                                                   valid.data()},
                                                  reinterpret_cast<float*>(tiles.data()),
                                                  {shift.data(), sum.data(), target.data()});
    device->synchronise();
    return owned;
  }

  double logit(std::int64_t r, std::int64_t column) const {
    double product = 0;
    for (std::int64_t k = 0; k < size_; ++k) {
      product += static_cast<double>(hidden[static_cast<std::size_t>(r * size_ + k)]) *
                 static_cast<double>(weight[static_cast<std::size_t>(column * size_ + k)]);
    }
    return static_cast<double>(alpha) * product;
  }
  bool owns(std::int64_t r) const {
    const std::int64_t id = targets[static_cast<std::size_t>(r)];
    return id >= kFirstId && id < kFirstId + columns_;
  }
  void expect_statistics_of(std::int64_t r) const {
    const auto at = static_cast<std::size_t>(r);
    if (targets[at] < 0) {
      EXPECT_EQ(shift[at], 0);
      EXPECT_EQ(sum[at], 1);
      EXPECT_EQ(target[at], 0);
      return;
    }
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t v = 0; v < columns_; ++v) most = std::max(most, logit(r, v));
    double all = 0;
    for (std::int64_t v = 0; v < columns_; ++v) all += std::exp(logit(r, v) - most);
    const double of_target = owns(r) ? logit(r, targets[at] - kFirstId) - most : 0;
    EXPECT_NEAR(shift[at], most, 1e-5 * (1 + std::abs(most))) << r;
    EXPECT_NEAR(sum[at], all, 1e-5 * all) << r;
    EXPECT_NEAR(target[at], of_target, 1e-5 * (1 + std::abs(of_target))) << r;
  }

  std::vector<float> hidden;
  std::vector<float> weight;
  std::vector<std::int32_t> targets;
  std::vector<std::uint8_t> valid;
  float alpha = 0.7f;
  std::vector<float> shift;
  std::vector<float> sum;
  std::vector<float> target;

 private:
  static Buffer tensor(Device& device, const std::vector<float>& values, DType dtype) {
    Buffer buffer = device.allocate(values.size() * size_of(dtype), "tensor", MemorySpace::device);
    const std::vector<bf16> rounded(values.begin(), values.end());
    const void* from = rounded.data();
    if (dtype == DType::f32) from = values.data();
    if (!values.empty()) device.copy(buffer.data(), from, buffer.bytes());
    return buffer;
  }

  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t size_;
};

/// A tile has 128 rows and 256 columns; a merge has 512 threads.
TEST(ProductRows, StatisticsAreThoseOfAllColumns) {
  constexpr std::int64_t kShapes[][2] = {{1, 1},     {3, 255},   {5, 256},      {7, 257},
                                         {128, 300}, {131, 600}, {2, 256 * 513}};
  for (const auto& [rows, columns] : kShapes) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns);
    TiledProduct product(rows, columns, 8);
    std::int64_t owned = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      owned += product.owns(r) && product.valid[static_cast<std::size_t>(r)] != 0 ? 1 : 0;
    }
    EXPECT_EQ(product.run(), owned);
    for (std::int64_t r = 0; r < rows; ++r) product.expect_statistics_of(r);
  }
}

/// Every column is found as the target, and as the largest logit.
TEST(ProductRows, EveryColumnHasItsPlace) {
  constexpr std::int64_t kColumns = 2 * ProductTile::kColumns + 9;
  TiledProduct product(kColumns, kColumns, 8);
  std::fill(product.hidden.begin(), product.hidden.end(), 1.0f);
  for (std::int64_t r = 0; r < kColumns; ++r) {
    product.targets[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(kFirstId + r);
  }
  product.run();
  for (std::int64_t r = 0; r < kColumns; ++r) product.expect_statistics_of(r);
}

TEST(ProductRows, HiddenStatesMayBeConverted) {
  TiledProduct product(5, 300, 24);
  product.run();
  const std::vector<float> native = product.sum;
  product.run(DType::f32);
  EXPECT_EQ(product.sum, native);
}

TEST(ProductRows, NotANumberReachesItsRowAlone) {
  TiledProduct product(3, 300, 8);
  product.targets = {kFirstId, kFirstId + 1, kFirstId + 2};
  product.hidden[8] = std::numeric_limits<float>::quiet_NaN();
  product.run();
  EXPECT_TRUE(std::isnan(product.sum[1]));
  product.expect_statistics_of(0);
  product.expect_statistics_of(2);
}

TEST(ProductRows, AShardWithoutColumnsHasEmptySums) {
  TiledProduct product(3, 0, 8);
  product.targets = {kFirstId, -1, kFirstId + 2};
  const float none = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(product.run(), 0);
  EXPECT_EQ(product.shift, (std::vector<float>{none, 0, none}));
  EXPECT_EQ(product.sum, (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(product.target, (std::vector<float>{0, 0, 0}));
}

TEST(ProductRows, OperationsAndLaunchesAreCounted) {
  const DeviceWork before = device_work();
  TiledProduct(3, 300, 8).run();
  EXPECT_EQ(device_work().flops - before.flops, 2 * 3 * 300 * 8);
  EXPECT_EQ(device_work().launches - before.launches, 2);
}

/// The threads of a tile hold each of its elements once.
TEST(ProductTile, ThreadsShareTheElements) {
  std::vector<int> held(ProductTile::kRows * ProductTile::kColumns);
  for (int thread = 0; thread < ProductTile::kThreads; ++thread) {
    std::vector<int> accumulators(2 * ProductTile::kColumnsOfThread);
    for (int k = 0; k < ProductTile::kRowsOfThread; ++k) {
      for (int i = 0; i < ProductTile::kColumnsOfThread; ++i) {
        const int at =
            ProductTile::row(thread, k) * ProductTile::kColumns + ProductTile::column(thread, i);
        ++held[static_cast<std::size_t>(at)];
        ++accumulators[static_cast<std::size_t>(ProductTile::accumulator(k, i))];
      }
    }
    EXPECT_EQ(std::count(accumulators.begin(), accumulators.end(), 1), 128) << thread;
  }
  EXPECT_EQ(std::count(held.begin(), held.end(), 1), ProductTile::kRows * ProductTile::kColumns);
}

}  // namespace
}  // namespace lossgrid
