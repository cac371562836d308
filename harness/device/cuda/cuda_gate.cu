// SPDX-License-Identifier: Apache-2.0
// A kernel that keeps a stream busy.
#include "harness/device/cuda/cuda_kernels.h"
#include "harness/device/cuda/device_launcher.cuh"

namespace lossgrid {
namespace {

struct Gate {
  std::int64_t ns;

  __device__ void operator()(DeviceBlock& block) const {
    block.one([&] {
      const std::uint64_t begin = now();
      while (now() - begin < static_cast<std::uint64_t>(ns)) __nanosleep(1000);
    });
  }

 private:
  /// Returns nanoseconds; the clock of a GPU may advance in steps of a microsecond.
  __device__ static std::uint64_t now() {
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  }
};

}  // namespace

const char* cuda_gate(std::int64_t ns, void* stream) {
  DeviceLauncher launch(stream);
  launch(Gate{ns}, 1, 0);
  return launch.error();
}

}  // namespace lossgrid
