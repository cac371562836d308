// SPDX-License-Identifier: Apache-2.0
#include "impls/kernels/cuda/rows_on_device.h"

#include "harness/device/cuda/launched.h"
#include "impls/kernels/cuda/cuda_rows.h"

namespace lossgrid {
namespace {

const CudaRowKernels& kernels_of(const LogitsRows& rows) {
  return kernels_for(*rows.device, cuda_row_kernels(), emulated_row_kernels());
}

CudaRows view(const LogitsRows& rows) {
  return {rows.dtype,         rows.data,        rows.rows,   rows.shard.width,
          rows.shard.valid(), rows.shard.begin, rows.targets};
}

CudaRowStatistics view(const RowStatistics& out) {
  return {out.shift, out.sum, out.target, out.weighted, out.min};
}

}  // namespace

bool runs_cuda_kernels(const LogitsRows& rows) {
  return rows.device != nullptr && rows.device->backend() != Backend::cpu;
}

void cuda_statistics(const LogitsRows& rows, const RowStatistics& out) {
  require_launched(kernels_of(rows).statistics(rows.device->stream(), view(rows), view(out)),
                   "statistics");
}

void cuda_gradient(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                   void* out) {
  require_launched(
      kernels_of(rows).gradient(rows.device->stream(), view(rows), shift, sum, grad, out),
      "gradient");
}

void cuda_sweep(const LogitsRows& rows, const float* grad, const RowStatistics& out,
                void* gradient) {
  require_launched(
      kernels_of(rows).sweep(rows.device->stream(), view(rows), grad, view(out), gradient),
      "sweep");
}

}  // namespace lossgrid
