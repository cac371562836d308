// SPDX-License-Identifier: Apache-2.0
// How long a piece of a rank's work takes on its device. On a GPU that is the time between two CUDA
// events on the stream of the rank: what the stream waits within it, for the host or for other
// ranks, belongs to it, and how long the host needs to hear of the end does not. Elsewhere it is
// the steady clock around the work and the wait for it. cuda_emulated has no time of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "harness/device/device.h"

namespace lossgrid {

class DeviceTimer {
 public:
  virtual ~DeviceTimer() = default;
  /// Nothing that was launched is pending.
  virtual void start() = 0;
  /// Waits (Device::synchronise) for what was launched since start(). Nanoseconds.
  virtual std::int64_t stop() = 0;
};

/// `device` outlives the timer.
std::unique_ptr<DeviceTimer> make_device_timer(Device& device);

/// "cuda_events", "steady_clock"
std::string_view timer_name(Backend backend);

}  // namespace lossgrid
