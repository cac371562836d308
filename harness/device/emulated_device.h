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

/// Stream of an emulated device (Device::stream()).
class EmulatedStream {
 public:
  void launch(std::function<void()> kernel) { pending_.push_back(std::move(kernel)); }
  bool idle() const { return pending_.empty(); }
  /// Makes room for launches, which then take no memory from the heap of a phase that is watched.
  void reserve(std::size_t launches) { pending_.reserve(launches); }
  /// Runs all launched work, in order. An exception of a kernel passes through; the later ones are
  /// dropped.
  void run();

 private:
  std::vector<std::function<void()>> pending_;
};

std::unique_ptr<Device> make_emulated_device();

}  // namespace lossgrid
