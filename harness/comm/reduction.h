// SPDX-License-Identifier: Apache-2.0
// Element-wise reductions of several arrays, in the order of the arrays and in their element type,
// so that the bits of a result depend neither on timing nor on the partition of the work. Integer
// sums wrap around; max and min propagate a NaN, and of equal values keep the first.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "harness/comm/communicator.h"
#include "harness/core/dtype.h"

namespace lossgrid {

/// Returns true for f64, f32, i64 and i32.
bool can_reduce(DType dtype);

/// Throws internal with `operation` unless can_reduce(dtype).
void require_reducible(std::string_view operation, DType dtype);

/// Computes out[i] := op over `sources`, first to last, of source[begin + i], for i < count. There
/// is at least one source. `out` may be `source + begin` of one of them, else it overlaps none.
void reduce_in_order(std::span<const std::byte* const> sources, std::size_t begin,
                     std::size_t count, DType dtype, ReduceOp op, void* out);

}  // namespace lossgrid
