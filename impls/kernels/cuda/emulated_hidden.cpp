// SPDX-License-Identifier: Apache-2.0
// The kernels of hidden_rows.h on the processor, as a GPU runs them.
#include "harness/device/cuda/emulated_launch.h"
#include "impls/kernels/cuda/hidden_kernels-inl.h"

namespace lossgrid {
namespace {

const char* gather(void* stream, const CudaGatheredRows& rows) {
  return launch_emulated(stream, [=](HostLauncher& on) { launch_gather_rows(on, rows); });
}

const char* clear(void* stream, DType dtype, void* data, const std::uint8_t* keep,
                  std::int64_t rows, std::int64_t size) {
  return launch_emulated(
      stream, [=](HostLauncher& on) { launch_clear_rows(on, dtype, data, keep, rows, size); });
}

const char* round(void* stream, float* data, std::int64_t rows, std::int64_t size) {
  return launch_emulated(stream,
                         [=](HostLauncher& on) { launch_round_rows(on, data, rows, size); });
}

const char* write(void* stream, const float* from, DType dtype, void* to, std::int64_t count) {
  return launch_emulated(
      stream, [=](HostLauncher& on) { launch_write_floats(on, from, dtype, to, count); });
}

}  // namespace

const CudaHiddenKernels& emulated_hidden_kernels() {
  static const CudaHiddenKernels kernels{gather, clear, round, write};
  return kernels;
}

}  // namespace lossgrid
