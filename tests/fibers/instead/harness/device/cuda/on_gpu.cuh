// SPDX-License-Identifier: Apache-2.0
// OnGpu in place of the one for GPUs: .cu files that are compiled as C++ with this folder in front
// give their launches to emulated GPUs, thread by thread (fibers/fiber_block.h).
#pragma once

#include <fmt/format.h>

#include "fibers/emulation.h"
#include "fibers/fiber_block.h"
#include "harness/device/kernel/launch.h"

namespace lossgrid {

template <class... Launches>
struct OnGpu {
  OnGpu() { (name<Launches>(), ...); }

 private:
  template <class Launch>
  static void name() {
    emulation_launches() += 1;
    emulated_launch<Launch> = [](const Launch& launch) {
      if (!fiber_order()) {
        HostLauncher launcher;
        launch(launcher);
        return;
      }
      try {
        FiberLauncher launcher(*fiber_order());
        launch(launcher);
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("kernel {}: {}", Launch::kName, error.what()));
      }
    };
  }
};

}  // namespace lossgrid
