// SPDX-License-Identifier: Apache-2.0
// How kernels of the cuda backends are chosen, and what becomes of what a launch says.
#pragma once

#include "harness/core/error.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/device.h"
#include "harness/device/device_work.h"

namespace lossgrid {

/// Those of the GPU, or of its emulation. Throws internal where the build has none.
template <typename Kernels>
const Kernels& kernels_for(const Device& device, const Kernels* on_gpu, const Kernels& emulated) {
  if (device.backend() == Backend::cuda_emulated) return emulated;
  if (on_gpu == nullptr) throw Error(ErrorCode::internal, "no CUDA kernels in this build");
  return *on_gpu;
}

/// Counts the launch of `kernel`; throws internal or device_lost with what CUDA said, null being
/// nothing.
inline void require_launched(const char* said, const char* kernel) {
  count_launch();
  if (said == nullptr) return;
  throw_cuda_failure(fmt::format("CUDA kernel {}", kernel).c_str(), said);
}

}  // namespace lossgrid
