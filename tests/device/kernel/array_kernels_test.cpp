// SPDX-License-Identifier: Apache-2.0
#include "harness/device/kernel/array_kernels.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "harness/device/kernel/host_block.h"

namespace lossgrid {
namespace {

template <typename F>
void run(std::int64_t count, const F& f) {
  HostLauncher launch;
  for_each_element(launch, count, f);
}

struct CountCalls {
  std::uint8_t* calls;
  LOSSGRID_KERNEL void operator()(std::int64_t k) const { calls[k] += 1; }
};

TEST(ForEachElement, CallsOnceAlsoWhereThereAreMoreThanThreads) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{kBlockThreads},
                                  std::size_t{4096} * kBlockThreads + 7}) {
    std::vector<std::uint8_t> calls(count);
    run(static_cast<std::int64_t>(count), CountCalls{calls.data()});
    EXPECT_EQ(calls, std::vector<std::uint8_t>(count, 1)) << count;
  }
}

/// Expects the pattern in [begin, begin + bytes) of an array and no write elsewhere.
void expect_filled(std::size_t size, std::size_t begin, std::size_t bytes) {
  constexpr unsigned char kBefore = 0x11;
  std::vector<unsigned char> memory(size, kBefore);
  const FillBytes fill(memory.data() + begin, 0xAB03, static_cast<std::int64_t>(bytes));
  EXPECT_TRUE(fill.vectors == 0 || is_aligned(fill.to + fill.head)) << begin;
  run(fill.steps(), fill);
  for (std::size_t k = 0; k < size; ++k) {
    const bool is_inside = k >= begin && k < begin + bytes;
    const unsigned char of_pattern = (k - begin) % 2 == 0 ? 0x03 : 0xAB;
    ASSERT_EQ(memory[k], is_inside ? of_pattern : kBefore)
        << "byte " << k << " of " << bytes << " from " << begin;
  }
}

TEST(FillBytes, HasAnyAlignmentAndSize) {
  for (std::size_t begin = 0; begin < 17; ++begin) {
    for (std::size_t bytes = 0; bytes < 70; ++bytes) expect_filled(128, begin, bytes);
  }
}

/// Adds arrays that begin `offset` elements after an aligned address.
void expect_sums(std::size_t count, std::size_t offset) {
  std::vector<float> values(count + offset + 4);
  std::vector<float> sum(count + offset + 4, 1);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k);
  const AddArray add{values.data() + offset, sum.data() + offset, static_cast<std::int64_t>(count)};
  run(add.steps(), add);
  for (std::size_t k = 0; k < sum.size(); ++k) {
    const bool is_inside = k >= offset && k < offset + count;
    ASSERT_EQ(sum[k], is_inside ? 1 + static_cast<float>(k) : 1) << count << " from " << offset;
  }
}

TEST(AddArray, HasAnyAlignmentAndCount) {
  for (const std::size_t offset : {0, 1, 3}) {
    for (std::size_t count = 0; count < 14; ++count) expect_sums(count, offset);
    expect_sums(10001, offset);
  }
}

TEST(ExtremaOfRows, AreTheFirstOfEqualsAndNanWhereOneIs) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  // Three ranks of four numbers, five apart.
  const std::vector<double> rows{1, -0.0, kNan, 7, 99, 3, 0.0, 2, 7, 99, 2, -5, 1, kNan};
  std::vector<double> largest(4);
  std::vector<double> least(4);
  run(4, ExtremaOfRows<double>{rows.data(), 3, 5, true, largest.data()});
  run(4, ExtremaOfRows<double>{rows.data(), 3, 5, false, least.data()});
  EXPECT_EQ(largest[0], 3);
  EXPECT_EQ(least[0], 1);
  EXPECT_TRUE(largest[1] == 0 && std::signbit(largest[1]));
  EXPECT_EQ(least[1], -5);
  for (const std::size_t k : {2, 3}) {
    EXPECT_TRUE(std::isnan(largest[k]) && std::isnan(least[k])) << k;
  }
}

}  // namespace
}  // namespace lossgrid
