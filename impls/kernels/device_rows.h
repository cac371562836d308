// SPDX-License-Identifier: Apache-2.0
// Choice of kernels by the backend of LogitsRows, conversion of rows for kernels of GPUs, and
// counts by the host.
#pragma once

#include "impls/kernels/cuda/cuda_rows.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

/// True if the kernels of the processor compute the rows.
inline bool on_processor(const LogitsRows& rows) {
  return rows.device == nullptr || rows.device->backend() == Backend::cpu;
}

/// Returns the rows without members that only the processor reads.
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

/// Returns the number of valid targets that the shard owns.
inline std::int64_t owned_targets(std::int64_t rows, const VocabShard& shard,
                                  const std::int32_t* targets, const std::uint8_t* valid) {
  std::int64_t owned = 0;
  for (std::int64_t r = 0; r < rows; ++r) owned += valid[r] != 0 && shard.owns(targets[r]) ? 1 : 0;
  return owned;
}

}  // namespace lossgrid
