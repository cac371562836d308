// SPDX-License-Identifier: Apache-2.0
// Chooses the kernels by the backend of the device: kernels of the processor (cpu/) or of GPUs
// (cuda/).
#include "impls/kernels/hidden_rows.h"

#include "harness/device/kernel/launch.h"
#include "impls/kernels/cpu/hidden_rows.h"
#include "impls/kernels/cuda/hidden_kernels-inl.h"

namespace lossgrid {

void gather_rows(Device& device, const GatheredRows& gathered) {
  if (device.backend() == Backend::cpu) return cpu_gather_rows(gathered);
  launch_kernels(device, LaunchGatherRows{gathered});
}

void clear_rows(Device& device, DType dtype, void* data, const std::uint8_t* keep,
                std::int64_t rows, std::int64_t size) {
  if (device.backend() == Backend::cpu) return cpu_clear_rows(dtype, data, keep, rows, size);
  launch_kernels(device, LaunchClearRows{dtype, data, keep, rows, size});
}

void round_rows(Device& device, float* data, std::int64_t rows, std::int64_t size) {
  if (device.backend() == Backend::cpu) return cpu_round_rows(data, rows, size);
  launch_kernels(device, LaunchRoundRows{data, rows, size});
}

void write_floats(Device& device, const float* from, DType to_dtype, void* to, std::int64_t count) {
  if (device.backend() == Backend::cpu) return cpu_write_floats(from, to_dtype, to, count);
  launch_kernels(device, LaunchWriteFloats{from, to_dtype, to, count});
}

}  // namespace lossgrid
