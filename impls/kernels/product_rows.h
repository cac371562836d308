// SPDX-License-Identifier: Apache-2.0
// Statistics of the rows of a product without the product: logits of hidden states and the weight
// of an lm_head are made tile by tile on chip, and only sums by row and tile are written (Wijmans
// et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024). Runs on GPUs of sm_90, by
// CUTLASS, and on emulated GPUs.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/core/skip_reason.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

/// bf16 factors of logits z = alpha hidden weight^T, row-major without gaps. On an emulated GPU the
/// values of hidden states may be in float32.
struct ProductRows {
  Device& device;
  DType hidden_dtype;
  const void* hidden;  // [rows, size]
  const bf16* weight;  // [shard.valid(), size]
  std::int64_t rows;
  std::int64_t size;  // H, a multiple of kProductSizeMultiple
  float alpha;
  VocabShard shard;
  RowTargets targets;         // [rows]
  const std::uint8_t* valid;  // [rows]
};

/// Rows of both factors begin at multiples of 16 bytes.
inline constexpr std::int64_t kProductSizeMultiple = 8;

/// Returns the reason why product_statistics() does not run on this backend; nullopt if it does.
std::optional<SkipReason> no_product_statistics(Backend backend);

/// Returns the floats of `tiles` for `rows` rows of `columns` ids.
std::int64_t product_tile_floats(std::int64_t rows, std::int64_t columns);

/// Launches the three statistics of rows_statistics() for the logits of the product, without
/// waiting. `tiles` [product_tile_floats] is overwritten. Returns the number of valid targets that
/// the shard owns.
std::int64_t product_statistics(const ProductRows& rows, float* tiles, const RowStatistics& out);

}  // namespace lossgrid
