// SPDX-License-Identifier: Apache-2.0
// Functions of impls/kernels/hidden_rows.h on the processor.
#pragma once

#include <cstdint>

#include "harness/core/dtype.h"
#include "impls/kernels/gathered_rows.h"

namespace lossgrid {

void cpu_gather_rows(const GatheredRows& gathered);
void cpu_clear_rows(DType dtype, void* data, const std::uint8_t* keep, std::int64_t rows,
                    std::int64_t size);
void cpu_round_rows(float* data, std::int64_t rows, std::int64_t size);
void cpu_write_floats(const float* from, DType to_dtype, void* to, std::int64_t count);

}  // namespace lossgrid
