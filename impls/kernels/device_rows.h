// SPDX-License-Identifier: Apache-2.0
// The choice of kernels by the backend of LogitsRows, and the rows as kernels of GPUs take them.
#pragma once

#include "impls/kernels/cuda/cuda_rows.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

/// True if the kernels of the processor compute the rows.
inline bool on_processor(const LogitsRows& rows) {
  return rows.device == nullptr || rows.device->backend() == Backend::cpu;
}

/// Returns the rows without what the processor alone reads.
inline CudaRows device_view(const LogitsRows& rows) {
  return {.dtype = rows.dtype,
          .data = rows.data,
          .rows = rows.rows,
          .width = rows.shard.width,
          .columns = rows.shard.valid(),
          .first_id = rows.shard.begin,
          .targets = rows.targets.kernel,
          .kept = rows.kept};
}

}  // namespace lossgrid
