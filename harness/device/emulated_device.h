// SPDX-License-Identifier: Apache-2.0
// Emulated GPU on the processor, as strict as a GPU can be: no launched work runs before the host
// waits for it, and the host cannot access memory of the device (a page fault) except through
// copies. So missing waits and misused pointers are found without a GPU.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/device/device.h"

namespace lossgrid {

/// When launched work runs: at a wait of the host, at its launch, or a part of it at each launch,
/// as a GPU may. Right code has the same results.
enum class StreamOrder { late, eager, by_parts };

/// Returns the order of emulated devices that are made from now on. Tests set it.
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
  /// Makes room for launches, which then take no memory from the heap of a phase that is watched.
  void reserve(std::size_t launches) { pending_.reserve(launches); }
  /// Runs the first `count` of launched work, in order. An exception of a kernel passes through;
  /// the later ones are dropped.
  void run(std::size_t count);

 private:
  std::vector<std::function<void()>> pending_;
  std::function<void()> at_launch_;
};

std::unique_ptr<Device> make_emulated_device();

}  // namespace lossgrid
