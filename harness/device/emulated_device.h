// SPDX-License-Identifier: Apache-2.0
// Emulated GPU on the processor, as strict as a GPU can be: no launched work runs before the host
// waits for it, and the host cannot access memory of the device (a page fault) except through
// copies. It finds missing waits and misused pointers without a GPU.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/device/device.h"

namespace lossgrid {

/// Time at which launched work runs: at a wait of the host (late), at its launch (eager), or some
/// pending work at each launch (by_parts). A GPU may do any of these; right code has the same
/// results with all.
enum class StreamOrder { late, eager, by_parts };

/// Returns the order for emulated devices that are made from now on. Tests set it.
inline StreamOrder& emulated_stream_order() {
  static StreamOrder order = StreamOrder::late;
  return order;
}

/// Stream of an emulated device (Device::stream()).
class EmulatedStream {
 public:
  void launch(std::function<void()> kernel) {
    pending_.push_back(std::move(kernel));
    if (at_launch_) at_launch_();
  }
  /// Calls `f` after every launch.
  void at_launch(std::function<void()> f) { at_launch_ = std::move(f); }
  bool idle() const { return pending_.empty(); }
  std::size_t size() const { return pending_.size(); }
  /// Reserves room for launches, so that they take no memory from the heap in a phase that is
  /// watched.
  void reserve(std::size_t launches) { pending_.reserve(launches); }
  /// Runs the first `count` pending launches, in order. An exception of a kernel is passed on and
  /// drops the launches behind it.
  void run(std::size_t count);

 private:
  std::vector<std::function<void()>> pending_;
  std::function<void()> at_launch_;
};

std::unique_ptr<Device> make_emulated_device();

}  // namespace lossgrid
