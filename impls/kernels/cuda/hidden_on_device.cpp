// SPDX-License-Identifier: Apache-2.0
#include "impls/kernels/cuda/hidden_on_device.h"

#include "harness/device/cuda/launched.h"
#include "impls/kernels/cuda/cuda_hidden.h"

namespace lossgrid {
namespace {

const CudaHiddenKernels& kernels_of(const Device& device) {
  return kernels_for(device, cuda_hidden_kernels(), emulated_hidden_kernels());
}

}  // namespace

void cuda_gather_rows(Device& device, const GatheredRows& gathered) {
  const CudaGatheredRows rows{gathered.from_dtype, gathered.from, gathered.source,
                              gathered.to_dtype,   gathered.to,   gathered.rows,
                              gathered.size};
  require_launched(kernels_of(device).gather_rows(device.stream(), rows), "gather_rows");
}

void cuda_clear_rows(Device& device, DType dtype, void* data, const std::uint8_t* keep,
                     std::int64_t rows, std::int64_t size) {
  require_launched(kernels_of(device).clear_rows(device.stream(), dtype, data, keep, rows, size),
                   "clear_rows");
}

void cuda_round_rows(Device& device, float* data, std::int64_t rows, std::int64_t size) {
  require_launched(kernels_of(device).round_rows(device.stream(), data, rows, size), "round_rows");
}

void cuda_write_floats(Device& device, const float* from, DType to_dtype, void* to,
                       std::int64_t count) {
  require_launched(kernels_of(device).write_floats(device.stream(), from, to_dtype, to, count),
                   "write_floats");
}

}  // namespace lossgrid
