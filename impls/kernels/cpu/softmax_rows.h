// SPDX-License-Identifier: Apache-2.0
// Kernels over rows of a vocab shard: the pieces of a sharded log-softmax (Megatron-LM
// `_VocabParallelCrossEntropy`): m = max, s = sum exp(x - m), x_y - m, and
// dz_v = g ([v = y] - exp(x_v - m) / s). One call handles a block of rows; rows without a target
// are not read. float32 statistics whatever the dtype of the logits.
#pragma once

#include <cstdint>
#include <span>

#include "harness/core/dtype.h"
#include "harness/problem/sharding.h"

namespace lossgrid {

/// Rows of this rank's shard, row-major, `shard.width` elements from row to row, of which
/// shard.valid() count.
struct LogitsRows {
  DType dtype;
  const void* data;
  std::int64_t rows;
  VocabShard shard;
  const std::int32_t* targets;  // [rows] global vocab id, -1: the row predicts nothing
  const std::uint8_t* valid;    // [rows]

  /// The part [begin, begin + count).
  LogitsRows slice(std::int64_t begin, std::int64_t count) const;
};

/// Longest serial float32 add chain of `rows_sum_exp`.
inline constexpr int kSumExpSerialAdds = 12;

/// max[r] over the valid columns and, unless `min` is null, min[r] over those that are not -inf;
/// -inf and +inf for an empty shard, 0 for rows that predict nothing.
void rows_max(const LogitsRows& rows, float* max, float* min);

/// sum[r] = sum over valid columns of exp(x - max[r]) and, unless `weighted` is null, weighted[r] =
/// sum of exp(x - max[r]) (x - max[r]), of which the entropy is made; 1 and 0 for rows that predict
/// nothing.
void rows_sum_exp(const LogitsRows& rows, const float* max, float* sum, float* weighted);

/// entropy[r] = - sum p ln p = ln(sum[r]) - weighted[r] / sum[r], from sums over the vocabulary.
void rows_entropy(std::span<const float> sum, std::span<const float> weighted,
                  std::span<float> entropy);

/// out[r] = x_y - max[r] where the shard owns the target, else 0. Returns how many valid targets
/// the shard owns.
std::int64_t rows_target(const LogitsRows& rows, const float* max, float* out);

/// out [rows, width] in the dtype of the logits := grad[r] ([v = y] - exp(x - max[r]) / sum[r]);
/// rows with grad 0 and padding columns become 0 without being read. `out` may be the logits.
void rows_gradient(const LogitsRows& rows, const float* max, const float* sum, const float* grad,
                   void* out);

}  // namespace lossgrid
