// SPDX-License-Identifier: Apache-2.0
// `KeptColumns`: the part of a row's kept set (harness/problem/values/sampling_mask.h) that one
// vocab shard holds, with a bit for each column. Kernels read the logits of all other columns as
// -inf. Plain data only: nvcc compiles this header.
#pragma once

#include <cstdint>

#include "harness/device/kernel/portable.h"

namespace lossgrid {

struct KeptColumns {
  const std::uint64_t* words;

  /// Returns the set of row r in shards of `width` columns.
  LOSSGRID_KERNEL static KeptColumns of_row(const std::uint64_t* mask, std::int64_t width,
                                            std::int64_t r) {
    return {mask + r * ((width + 63) / 64)};
  }
  LOSSGRID_KERNEL bool keeps(std::int64_t column) const {
    return (words[column / 64] >> (column % 64) & 1) != 0;
  }
};

}  // namespace lossgrid
