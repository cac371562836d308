// SPDX-License-Identifier: Apache-2.0
// Size of the last-level cache, which the buffer of a walk exceeds.
#include "harness/measure/cache.h"

#include <gtest/gtest.h>

#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"

namespace lossgrid {
namespace {

TEST(Cache, HasASizeThatProcessorsHave) {
  EXPECT_GE(last_level_cache_bytes(), std::int64_t{64} << 10);
  EXPECT_LE(last_level_cache_bytes(), std::int64_t{8} << 30);
  EXPECT_GT(cache_walk_bytes(), last_level_cache_bytes());
}

TEST(CacheWalk, TakesWhatIsPlannedAndNothingMoreWhenItRuns) {
  const std::unique_ptr<Device> device = make_cpu_device();
  CacheWalk walk(*device);
  const std::int64_t bytes = device->tracker().live_bytes();
  EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(cache_walk_bytes()), 8);
  device->tracker().begin_phase("walk");
  walk.run();
  device->tracker().end_phase();
  EXPECT_EQ(device->tracker().phases().back().peak_bytes, bytes);
  EXPECT_TRUE(device->take_broken_guards().empty());
}

TEST(CacheWalk, OnAGpuIsAKernelThatTheHostDoesNotWaitFor) {
  const std::unique_ptr<Device> device = make_emulated_device();
  const std::int64_t walked = cache_walk_bytes(Backend::cuda_emulated);
  EXPECT_EQ(walked, 4 * last_level_cache_bytes(Backend::cuda_emulated));
  CacheWalk walk(*device);
  EXPECT_EQ(device->tracker().live_bytes(),
            walked + DeviceMemory::memory_bytes(walked, Backend::cuda_emulated));
  device_work() = {};
  walk.run();
  EXPECT_EQ(device_work().launches, 1);
  EXPECT_EQ(device_work().synchronisations, 0);
  device->synchronise();
}

}  // namespace
}  // namespace lossgrid
