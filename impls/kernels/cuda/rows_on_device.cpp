// SPDX-License-Identifier: Apache-2.0
#include "impls/kernels/cuda/rows_on_device.h"

#include "harness/core/error.h"
#include "harness/device/device_work.h"
#include "impls/kernels/cuda/cuda_rows.h"

namespace lossgrid {
namespace {

const CudaRowKernels& kernels_of(const LogitsRows& rows) {
  if (rows.device->backend() == Backend::cuda_emulated) return emulated_row_kernels();
  const CudaRowKernels* kernels = cuda_row_kernels();
  if (kernels == nullptr) throw Error(ErrorCode::internal, "no CUDA kernels in this build");
  return *kernels;
}

CudaRows view(const LogitsRows& rows) {
  return {rows.dtype,         rows.data,        rows.rows,   rows.shard.width,
          rows.shard.valid(), rows.shard.begin, rows.targets};
}

CudaRowStatistics view(const RowStatistics& out) {
  return {out.shift, out.sum, out.target, out.weighted, out.min};
}

void require_done(const char* said, const char* kernel) {
  count_launch_and_wait();
  if (said == nullptr) return;
  throw Error(ErrorCode::internal, fmt::format("CUDA kernel {}: {}", kernel, said));
}

}  // namespace

bool runs_cuda_kernels(const LogitsRows& rows) {
  return rows.device != nullptr && rows.device->backend() != Backend::cpu;
}

void cuda_statistics(const LogitsRows& rows, const RowStatistics& out) {
  require_done(kernels_of(rows).statistics(rows.device->stream(), view(rows), view(out)),
               "statistics");
}

void cuda_gradient(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                   void* out) {
  require_done(kernels_of(rows).gradient(rows.device->stream(), view(rows), shift, sum, grad, out),
               "gradient");
}

void cuda_sweep(const LogitsRows& rows, const float* grad, const RowStatistics& out,
                void* gradient) {
  require_done(kernels_of(rows).sweep(rows.device->stream(), view(rows), grad, view(out), gradient),
               "sweep");
}

}  // namespace lossgrid
