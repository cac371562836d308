// SPDX-License-Identifier: Apache-2.0
// Row operations of the lm_head path other than GEMM (gather, clear, convert), on the backend of
// the device. On the processor they are done on return; on a GPU they are launched without waiting.
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"
#include "harness/device/device.h"
#include "impls/kernels/gathered_rows.h"

namespace lossgrid {

void gather_rows(Device& device, const GatheredRows& gathered);

/// Sets rows [rows, size] with keep[k] = 0 to 0.
void clear_rows(Device& device, DType dtype, void* data, const std::uint8_t* keep,
                std::int64_t rows, std::int64_t size);

/// Rounds every row [rows, size] of floats to bf16, at the begin of its own memory: afterwards rows
/// are 2 `size` elements apart.
void round_rows(Device& device, float* data, std::int64_t rows, std::int64_t size);

/// to[k] := from[k], rounded if `to` is bf16.
void write_floats(Device& device, const float* from, DType to_dtype, void* to, std::int64_t count);

}  // namespace lossgrid
