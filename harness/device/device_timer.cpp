// SPDX-License-Identifier: Apache-2.0
#include "harness/device/device_timer.h"

#include "harness/core/clock.h"
#include "harness/device/backend.h"

namespace lossgrid {
namespace {

class SteadyTimer final : public DeviceTimer {
 public:
  explicit SteadyTimer(Device& device) : device_(device) {}

  void start() override { start_ = steady_clock_ns(); }
  std::int64_t stop() override {
    device_.synchronise();
    return steady_clock_ns() - start_;
  }

 private:
  Device& device_;
  std::int64_t start_ = 0;
};

}  // namespace

std::unique_ptr<DeviceTimer> make_device_timer(Device& device) {
  return traits_of(device.backend()).make_timer(device);
}

std::unique_ptr<DeviceTimer> make_steady_timer(Device& device) {
  return std::make_unique<SteadyTimer>(device);
}

}  // namespace lossgrid
