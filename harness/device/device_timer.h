// SPDX-License-Identifier: Apache-2.0
// DeviceTimer: duration of a piece of a rank's work on its device. On a GPU it is the time between
// two CUDA events on the stream of the rank: it includes the stream's waits for the host and for
// other ranks, and excludes the time until the host notices the end. Elsewhere it is the time by
// the steady clock around the work and the wait for its end. Used by the thread of the rank.
#pragma once

#include <cstdint>
#include <memory>

#include "harness/device/device.h"

namespace lossgrid {

class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  /// Starts the measurement. Requires that no launch is pending.
  virtual void start() = 0;
  /// Waits (Device::synchronise) for all launches since start(). Returns nanoseconds.
  virtual std::int64_t stop() = 0;
};

/// Makes the timer of the device's backend. `device` outlives the timer.
std::unique_ptr<DeviceTimer> make_device_timer(Device& device);

/// Makes a timer by the steady clock, for any device, which outlives it.
std::unique_ptr<DeviceTimer> make_steady_timer(Device& device);

}  // namespace lossgrid
