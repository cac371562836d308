// SPDX-License-Identifier: Apache-2.0
// hidden_rows.h with the kernels of a CUDA device, or of one that is emulated. Each throws internal
// with what CUDA says.
#pragma once

#include "impls/kernels/cpu/hidden_rows.h"

namespace lossgrid {

void cuda_gather_rows(Device& device, const GatheredRows& gathered);
void cuda_clear_rows(Device& device, DType dtype, void* data, const std::uint8_t* keep,
                     std::int64_t rows, std::int64_t size);
void cuda_round_rows(Device& device, float* data, std::int64_t rows, std::int64_t size);
void cuda_write_floats(Device& device, const float* from, DType to_dtype, void* to,
                       std::int64_t count);

}  // namespace lossgrid
