// SPDX-License-Identifier: Apache-2.0
// GatheredRows: arguments of gather_rows (hidden_rows.h). Plain data only: nvcc compiles this
// header.
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"

namespace lossgrid {

/// Row k of `to` := row source[k] of `from`, or 0 where source[k] is negative. Rows have `size`
/// elements. Dtypes are equal, or bf16 becomes f32.
struct GatheredRows {
  DType from_dtype;
  const void* from;
  const std::int32_t* source;  // [rows]
  DType to_dtype;
  void* to;
  std::int64_t rows;
  std::int64_t size;
};

}  // namespace lossgrid
