// SPDX-License-Identifier: Apache-2.0
// Timers of devices, with known work as a lower bound of the time.
#include "harness/device/device_timer.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "harness/device/backend.h"
#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"

namespace lossgrid {
namespace {

constexpr std::chrono::milliseconds kNap{3};
constexpr std::int64_t kNapNs = 3'000'000;

TEST(DeviceTimer, WaitsForWhatWasLaunched) {
  const std::unique_ptr<Device> device = make_emulated_device();
  const std::unique_ptr<DeviceTimer> timer = make_device_timer(*device);
  bool done = false;
  timer->start();
  count_launch();
  static_cast<EmulatedStream*>(device->stream())->launch([&done] {
    std::this_thread::sleep_for(kNap);
    done = true;
  });
  EXPECT_GE(timer->stop(), kNapNs);
  EXPECT_TRUE(done);
}

TEST(DeviceTimer, CountsWhatTheHostDoesInBetween) {
  for (const Backend backend : all_backends()) {
    if (no_device(backend)) continue;
    const std::unique_ptr<Device> device = make_device(backend, 0);
    const std::unique_ptr<DeviceTimer> timer = make_device_timer(*device);
    timer->start();
    std::this_thread::sleep_for(kNap);
    // On a GPU the first event follows a kernel of 100 microseconds.
    EXPECT_GE(timer->stop(), kNapNs - 110'000) << name(backend);
  }
}

TEST(DeviceTimer, HasANameByBackend) {
  EXPECT_EQ(traits_of(Backend::cpu).timer, "steady_clock");
  EXPECT_EQ(traits_of(Backend::cuda).timer, "cuda_events");
  EXPECT_EQ(traits_of(Backend::cuda_emulated).timer, "steady_clock");
}

}  // namespace
}  // namespace lossgrid
