// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/reduction.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace lossgrid {
namespace {

template <typename T>
std::vector<T> reduce(const std::vector<std::vector<T>>& sources, ReduceOp op, std::size_t begin,
                      std::size_t count) {
  std::vector<const std::byte*> pointers;
  for (const auto& source : sources) {
    pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  }
  std::vector<T> out(count);
  reduce_in_order(pointers, begin, count, DTypeOf<T>::value, op, out.data());
  return out;
}

// In f32, in order: (2^24 + 1) - 2^24 = 0, but 1 when summed in f64 or in another order.
TEST(Reduction, SumsInOrderInTheElementType) {
  const std::vector<std::vector<float>> sources{{16777216.0f}, {1.0f}, {-16777216.0f}};
  EXPECT_EQ(reduce(sources, ReduceOp::sum, 0, 1), std::vector<float>{0.0f});
  const std::vector<std::vector<float>> other{{16777216.0f}, {-16777216.0f}, {1.0f}};
  EXPECT_EQ(reduce(other, ReduceOp::sum, 0, 1), std::vector<float>{1.0f});
}

TEST(Reduction, IntegersKeepAllBits) {
  const std::int64_t big = (std::int64_t{1} << 53) + 1;  // no double
  EXPECT_EQ(reduce<std::int64_t>({{big}, {2}}, ReduceOp::sum, 0, 1)[0], big + 2);
  EXPECT_EQ(reduce<std::int64_t>({{big}, {big + 1}}, ReduceOp::max, 0, 1)[0], big + 1);
  EXPECT_EQ(reduce<std::int32_t>({{-5}, {3}}, ReduceOp::min, 0, 1)[0], -5);
}

TEST(Reduction, IntegerSumsWrapAround) {
  constexpr auto kMax = std::numeric_limits<std::int32_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(reduce<std::int32_t>({{kMax}, {1}}, ReduceOp::sum, 0, 1)[0], kMin);
}

// std::max drops a NaN on one side or the other, depending on the order of its arguments.
TEST(Reduction, ExtremaPropagateNaNFromAnyPlace) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    for (std::size_t place = 0; place < 3; ++place) {
      std::vector<std::vector<double>> sources{{infinity}, {-infinity}, {1.0}};
      sources[place][0] = nan;
      EXPECT_TRUE(std::isnan(reduce(sources, op, 0, 1)[0])) << name(op) << " at " << place;
    }
  }
}

TEST(Reduction, ExtremaOfEqualValuesKeepTheFirst) {
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
    EXPECT_TRUE(std::signbit(reduce<float>({{-0.0f}, {0.0f}}, op, 0, 1)[0])) << name(op);
    EXPECT_FALSE(std::signbit(reduce<float>({{0.0f}, {-0.0f}}, op, 0, 1)[0])) << name(op);
  }
}

// Counts around the block of the inner loop; a part that does not begin at the front.
TEST(Reduction, ReducesExactlyThePartAsked) {
  std::vector<std::vector<float>> sources(3, std::vector<float>(2000));
  for (std::size_t s = 0; s < 3; ++s) {
    for (std::size_t i = 0; i < 2000; ++i) sources[s][i] = static_cast<float>((s + 1) * i);
  }
  for (const std::size_t count : {0u, 1u, 511u, 512u, 513u, 1024u, 1900u}) {
    const std::vector<float> out = reduce(sources, ReduceOp::sum, 37, count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(out[i], static_cast<float>(6 * (37 + i))) << count << " at " << i;
    }
  }
}

TEST(Reduction, MayWriteOverASource) {
  std::vector<std::vector<float>> values(3, std::vector<float>(1500, 1.0f));
  std::vector<const std::byte*> sources;
  for (auto& v : values) sources.push_back(reinterpret_cast<const std::byte*>(v.data()));
  reduce_in_order(sources, 100, 1300, DType::f32, ReduceOp::sum, values[1].data() + 100);
  for (std::size_t i = 0; i < 1500; ++i) {
    ASSERT_EQ(values[1][i], i >= 100 && i < 1400 ? 3.0f : 1.0f) << i;
  }
}

TEST(Reduction, RefusesOtherTypes) {
  const std::vector<const std::byte*> sources{nullptr};
  for (const DType dtype : {DType::bf16, DType::u8}) {
    EXPECT_FALSE(can_reduce(dtype));
    EXPECT_THROW(reduce_in_order(sources, 0, 0, dtype, ReduceOp::sum, nullptr), Error);
  }
}

}  // namespace
}  // namespace lossgrid
