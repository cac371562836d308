// SPDX-License-Identifier: Apache-2.0
// OnGpu: the line by which a .cu file gives launches (kernel/launch.h) to GPUs.
#pragma once

#include "harness/core/process/heap_watch.h"
#include "harness/device/cuda/cuda_launch.h"
#include "harness/device/cuda/device_launcher.cuh"

namespace lossgrid {

/// Compiles the kernels of `Launches` for GPUs, as an object of static storage in a .cu file.
template <class... Launches>
struct OnGpu {
  OnGpu() { (name<Launches>(), ...); }

 private:
  template <class Launch>
  static void name() {
    cuda_launch<Launch> = [](void* stream, const Launch& launch) -> const char* {
      const HeapWatchScope unwatched(nullptr);  // the driver loads kernels on demand
      DeviceLauncher launcher(stream);
      launch(launcher);
      return launcher.error();
    };
  }
};

}  // namespace lossgrid
