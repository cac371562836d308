// SPDX-License-Identifier: Apache-2.0
// The row kernels of GPUs on the processor.
#include "harness/device/cuda/emulated_launch.h"
#include "impls/kernels/cuda/row_kernels-inl.h"

namespace lossgrid {
namespace {

const char* statistics(void* stream, const CudaRows& rows, const CudaRowStatistics& out) {
  return launch_emulated(stream, [=](HostLauncher& on) { launch_statistics(on, rows, out); });
}

const char* gradient(void* stream, const CudaRows& rows, const float* shift, const float* sum,
                     const float* grad, void* out) {
  return launch_emulated(
      stream, [=](HostLauncher& on) { launch_gradient(on, rows, shift, sum, grad, out); });
}

const char* sweep(void* stream, const CudaRows& rows, const float* grad,
                  const CudaRowStatistics& out, void* gradient) {
  return launch_emulated(stream,
                         [=](HostLauncher& on) { launch_sweep(on, rows, grad, out, gradient); });
}

}  // namespace

const CudaRowKernels& emulated_row_kernels() {
  static const CudaRowKernels kernels{statistics, gradient, sweep};
  return kernels;
}

}  // namespace lossgrid
