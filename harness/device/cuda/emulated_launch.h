// SPDX-License-Identifier: Apache-2.0
// Launches of kernels of a GPU on the processor.
#pragma once

#include "harness/device/cuda/host_block.h"
#include "harness/device/emulated_device.h"

namespace lossgrid {

/// launch(HostLauncher&) behind all that was launched on the stream of an emulated device. Nothing
/// can go wrong: null.
template <typename Launch>
const char* launch_emulated(void* stream, const Launch& launch) {
  static_cast<EmulatedStream*>(stream)->launch([launch] {
    HostLauncher launcher;
    launch(launcher);
  });
  return nullptr;
}

}  // namespace lossgrid
