// SPDX-License-Identifier: Apache-2.0
#include "harness/device/parallel_fingerprint.h"

#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TEST(ParallelFingerprint, DoesNotDependOnThreadsButOnEveryByteAndItsPlace) {
  std::vector<std::byte> bytes((std::size_t{5} << 19) + 3);  // two blocks and a half
  for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(k * 7 + k / 251);
  set_rank_threads(1);
  const std::uint64_t one = parallel_fingerprint(bytes);
  set_rank_threads(1 << 20);
  EXPECT_EQ(parallel_fingerprint(bytes), one);
  for (const std::size_t k : {std::size_t{0}, std::size_t{1} << 20, bytes.size() - 1}) {
    bytes[k] ^= std::byte{1};
    EXPECT_NE(parallel_fingerprint(bytes), one) << k;
    bytes[k] ^= std::byte{1};
  }
  const auto block = std::ptrdiff_t{1} << 20;
  std::swap_ranges(bytes.begin(), bytes.begin() + block, bytes.begin() + block);
  EXPECT_NE(parallel_fingerprint(bytes), one);
  EXPECT_NE(parallel_fingerprint({}), one);
}

}  // namespace
}  // namespace lossgrid
