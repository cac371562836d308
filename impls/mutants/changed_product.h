// SPDX-License-Identifier: Apache-2.0
// Wrong matrix products that mutants of several products have in common.
#pragma once

#include <cstdint>
#include <span>

#include "harness/device/gemm.h"
#include "impls/toolkit/strategy.h"

namespace lossgrid {

/// Multiplies, and rounds the result to bf16.
void multiply_to_bf16(const RankContext& context, const Gemm& product, std::span<float> workspace);

/// Multiplies by the second factor of the next TP rank, of `elements` elements. Collective over TP.
void multiply_by_shard_of_next_rank(const RankContext& context, const Gemm& product,
                                    std::int64_t elements, std::span<float> workspace);

}  // namespace lossgrid
