// SPDX-License-Identifier: Apache-2.0
// What the way from hidden states to a loss does with rows beside products: rows gathered as the
// factor of a product, gradients rounded for one. With the kernels of the device, launched and not
// waited for.
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"
#include "harness/device/device.h"

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
void gather_rows(Device& device, const GatheredRows& gathered);

/// Rows [rows, size] of which keep[k] is 0 become 0.
void clear_rows(Device& device, DType dtype, void* data, const std::uint8_t* keep,
                std::int64_t rows, std::int64_t size);

/// Every row [rows, size] of floats to bf16, at the beginning of where it stands: then 2 `size`
/// elements from row to row.
void round_rows(Device& device, float* data, std::int64_t rows, std::int64_t size);

/// to[k] := from[k], rounded where `to` is bf16.
void write_floats(Device& device, const float* from, DType to_dtype, void* to, std::int64_t count);

}  // namespace lossgrid
