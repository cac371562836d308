// SPDX-License-Identifier: Apache-2.0
#include "harness/device/cuda/launch_shape.h"

#include <limits>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

TEST(LaunchShape, AsksForWhatAGpuHas) {
  constexpr std::int64_t kMost = 2147483647;  // blocks along x; y and z have 65535
  struct Case {
    std::int64_t blocks;
    std::size_t shared_bytes;
    LaunchStep step;
  };
  for (const Case& c : std::initializer_list<Case>{
           {0, 0, LaunchStep::nothing},
           {0, 96 << 10, LaunchStep::nothing},
           {1, 0, LaunchStep::launch},
           {65536, 46 << 10, LaunchStep::launch},
           {1, (46 << 10) + 16, LaunchStep::allow_shared},
           {kMost, 100 << 10, LaunchStep::allow_shared},
           {kMost + 1, 0, LaunchStep::is_impossible},
           {(std::int64_t{1} << 32) + 1, 0, LaunchStep::is_impossible},
           {-1, 0, LaunchStep::is_impossible},
           {1, std::numeric_limits<std::size_t>::max(), LaunchStep::is_impossible}}) {
    const LaunchShape shape = launch_shape(c.blocks, c.shared_bytes);
    EXPECT_EQ(shape.step, c.step) << c.blocks << " " << c.shared_bytes;
    if (c.step != LaunchStep::launch && c.step != LaunchStep::allow_shared) continue;
    EXPECT_EQ(shape.blocks, c.blocks);
    EXPECT_EQ(static_cast<std::size_t>(shape.shared_bytes), c.shared_bytes);
  }
}

}  // namespace
}  // namespace lossgrid
