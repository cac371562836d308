// SPDX-License-Identifier: Apache-2.0
// The row kernels on a GPU.
#include "harness/device/cuda/device_block.cuh"
#include "impls/kernels/cuda/row_kernels-inl.h"

namespace lossgrid {
namespace {

const char* statistics(void* stream, const CudaRows& rows, const CudaRowStatistics& out) {
  DeviceLauncher launcher(stream);
  launch_statistics(launcher, rows, out);
  return launcher.said();
}

const char* gradient(void* stream, const CudaRows& rows, const float* shift, const float* sum,
                     const float* grad, void* out) {
  DeviceLauncher launcher(stream);
  launch_gradient(launcher, rows, shift, sum, grad, out);
  return launcher.said();
}

const char* sweep(void* stream, const CudaRows& rows, const float* grad,
                  const CudaRowStatistics& out, void* gradient) {
  DeviceLauncher launcher(stream);
  launch_sweep(launcher, rows, grad, out, gradient);
  return launcher.said();
}

}  // namespace

const CudaRowKernels* cuda_row_kernels() {
  static const CudaRowKernels kernels{statistics, gradient, sweep};
  return &kernels;
}

}  // namespace lossgrid
