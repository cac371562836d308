// SPDX-License-Identifier: Apache-2.0
// A kernel that ends in a sticky error.
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/device_launcher.cuh"

namespace lossgrid {
namespace {

struct Trap {
  __device__ void operator()(DeviceBlock& /*block*/) const { asm volatile("trap;"); }
};

}  // namespace

const char* cuda_trap(void* stream) {
  DeviceLauncher launch(stream);
  launch(Trap{}, 1, 0);
  return launch.error();
}

}  // namespace lossgrid
