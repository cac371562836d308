// SPDX-License-Identifier: Apache-2.0
// The row kernels of GPUs on the processor.
#include "harness/device/cuda/host_block.h"
#include "impls/kernels/cuda/row_kernels-inl.h"

namespace lossgrid {
namespace {

const char* statistics(void* /*stream*/, const CudaRows& rows, const CudaRowStatistics& out) {
  HostLauncher launcher;
  launch_statistics(launcher, rows, out);
  return nullptr;
}

const char* gradient(void* /*stream*/, const CudaRows& rows, const float* shift, const float* sum,
                     const float* grad, void* out) {
  HostLauncher launcher;
  launch_gradient(launcher, rows, shift, sum, grad, out);
  return nullptr;
}

const char* sweep(void* /*stream*/, const CudaRows& rows, const float* grad,
                  const CudaRowStatistics& out, void* gradient) {
  HostLauncher launcher;
  launch_sweep(launcher, rows, grad, out, gradient);
  return nullptr;
}

}  // namespace

const CudaRowKernels& emulated_row_kernels() {
  static const CudaRowKernels kernels{statistics, gradient, sweep};
  return kernels;
}

}  // namespace lossgrid
