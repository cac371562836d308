// SPDX-License-Identifier: Apache-2.0
// Bytes of rows that the threads of a rank count, after their kernel has run.
#include "harness/device/kernel/row_traffic.h"

#include <gtest/gtest.h>

#include "harness/device/emulated_device.h"
#include "harness/device/kernel/launch.h"

namespace lossgrid {
namespace {

/// Kernel in which every block reads one byte and writes as many bytes as its index.
struct CountingKernel {
  template <typename Block>
  void operator()(Block& block) const {
    count_row_read(1);
    count_row_written(block.index());
  }
};

struct LaunchCounting {
  static constexpr const char* kName = "counting";
  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    launcher(CountingKernel(), 10, 0);
  }
};

TEST(RowTraffic, IsCountedOnceByTheRankForAllOfItsThreads) {
  const int before = rank_threads();
  for (const int threads : {1, 2, 3}) {
    set_rank_threads(threads);
    const std::unique_ptr<Device> device = make_emulated_device();
    device_work() = {};
    launch_kernels(*device, LaunchCounting());
    launch_kernels(*device, LaunchCounting());
    EXPECT_EQ(device_work().rows.read_bytes, 0);
    device->synchronise();
    EXPECT_EQ(device_work().rows.read_bytes, 2 * 10);
    EXPECT_EQ(device_work().rows.written_bytes, 2 * 45);
    device->synchronise();
    EXPECT_EQ(device_work().rows.read_bytes, 2 * 10);
  }
  set_rank_threads(before);
}

}  // namespace
}  // namespace lossgrid
