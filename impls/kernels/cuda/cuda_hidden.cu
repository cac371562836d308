// SPDX-License-Identifier: Apache-2.0
// The kernels of hidden_rows.h on a GPU.
#include "harness/device/cuda/device_block.cuh"
#include "impls/kernels/cuda/hidden_kernels-inl.h"

namespace lossgrid {
namespace {

const char* gather(void* stream, const CudaGatheredRows& rows) {
  DeviceLauncher launcher(stream);
  launch_gather_rows(launcher, rows);
  return launcher.said();
}

const char* clear(void* stream, DType dtype, void* data, const std::uint8_t* keep,
                  std::int64_t rows, std::int64_t size) {
  DeviceLauncher launcher(stream);
  launch_clear_rows(launcher, dtype, data, keep, rows, size);
  return launcher.said();
}

const char* round(void* stream, float* data, std::int64_t rows, std::int64_t size) {
  DeviceLauncher launcher(stream);
  launch_round_rows(launcher, data, rows, size);
  return launcher.said();
}

const char* write(void* stream, const float* from, DType dtype, void* to, std::int64_t count) {
  DeviceLauncher launcher(stream);
  launch_write_floats(launcher, from, dtype, to, count);
  return launcher.said();
}

}  // namespace

const CudaHiddenKernels* cuda_hidden_kernels() {
  static const CudaHiddenKernels kernels{gather, clear, round, write};
  return &kernels;
}

}  // namespace lossgrid
