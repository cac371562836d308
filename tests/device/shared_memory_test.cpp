// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda/shared_memory.h"

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

constexpr std::int64_t kKib = 1024;

TEST(SharedMemory, TwoBlocksOfAMultiprocessorHaveRoom) {
  // An H100 or H200, an A100, and a GPU whose blocks may not have half of an SM's memory.
  EXPECT_EQ(room_beside_another(228 * kKib, 227 * kKib), 112 * kKib);
  EXPECT_EQ(room_beside_another(164 * kKib, 163 * kKib), 80 * kKib);
  EXPECT_EQ(room_beside_another(228 * kKib, 48 * kKib), 46 * kKib);
  EXPECT_EQ(room_beside_another(0, 0), 0);
}

TEST(SharedMemory, MoreThanEveryKernelHasMustBeAllowed) {
  EXPECT_FALSE(must_be_allowed(0));
  EXPECT_FALSE(must_be_allowed(46 * kKib));
  EXPECT_TRUE(must_be_allowed(46 * kKib + 16));
  EXPECT_TRUE(must_be_allowed(48 * kKib));  // the kernel's own variables exceed the limit
}

}  // namespace
}  // namespace lossgrid
