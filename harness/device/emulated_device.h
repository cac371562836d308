// SPDX-License-Identifier: Apache-2.0
// A GPU on the processor, as unkind as a GPU can be: nothing that is launched runs before the host
// waits for it, and memory of the device is no memory to the host (a page fault) but through
// copies. So a missing wait and a pointer in the wrong hands are found without a GPU.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/device/device.h"

namespace lossgrid {

/// The stream of an emulated device (Device::stream()).
class EmulatedStream {
 public:
  void launch(std::function<void()> kernel) { pending_.push_back(std::move(kernel)); }
  bool idle() const { return pending_.empty(); }
  /// Runs what was launched, in order. What a kernel throws is thrown; those behind it are dropped.
  void run();

 private:
  std::vector<std::function<void()>> pending_;
};

std::unique_ptr<Device> make_emulated_device();

}  // namespace lossgrid
