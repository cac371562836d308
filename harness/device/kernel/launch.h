// SPDX-License-Identifier: Apache-2.0
// launch_kernels: the one way to the CUDA kernels of this repository. A launch is a struct of plain
// data:
//
//   struct LaunchClearRows {
//     static constexpr const char* kName = "clear_rows";  // in errors
//     float* data;
//     std::int64_t rows;
//     template <typename Launcher>
//     void operator()(Launcher& launcher) const {
//       launcher(ClearRowsKernel{data}, rows, 0);  // kernel (portable.h), blocks, shared bytes
//     }
//   };
//
// Three places take part. A header of plain data and portable code defines the launch and its
// kernels. A .cu file names it for GPUs: `const OnGpu<LaunchClearRows> clear_rows;` (on_gpu.cuh).
// Callers on the host call launch_kernels(device, LaunchClearRows{...}). Backend cuda_emulated runs
// the same code on the processor (host_block.h). Work with one thread per item needs no kernel of
// its own (items.h). Matrix products are calls of a library: Device::kernels() (gemm.h).
#pragma once

#include "harness/core/error.h"
#include "harness/device/cuda/cuda_devices.h"
#include "harness/device/cuda/cuda_launch.h"
#include "harness/device/device.h"
#include "harness/device/device_work.h"
#include "harness/device/emulated_device.h"
#include "harness/device/kernel/host_block.h"

namespace lossgrid {

/// Function that runs a launch on an emulated GPU in place of HostLauncher, unless null. Tests set
/// it, to run threads of blocks in other orders.
template <class Launch>
inline void (*emulated_launch)(const Launch&) = nullptr;

/// Launches on the stream of `device`, which is not the processor, and counts one launch. Returns
/// without waiting. Throws internal or device_lost with the error of CUDA, internal if no .cu file
/// of this build names the launch.
template <class Launch>
void launch_kernels(Device& device, const Launch& launch) {
  count_launch();
  if (device.backend() == Backend::cuda_emulated) {
    static_cast<EmulatedStream*>(device.stream())->launch([launch] {
      if (emulated_launch<Launch> != nullptr) return emulated_launch<Launch>(launch);
      HostLauncher launcher;
      launch(launcher);
    });
    return;
  }
  const char* error = cuda_launch<Launch> == nullptr ? "not in this build"
                                                     : cuda_launch<Launch>(device.stream(), launch);
  if (error == nullptr) return;
  throw_cuda_failure(fmt::format("CUDA kernel {}", Launch::kName).c_str(), error);
}

}  // namespace lossgrid
