// SPDX-License-Identifier: Apache-2.0
// Kernels over rows of a vocab shard: the pieces of a sharded log-softmax (Megatron-LM
// `_VocabParallelCrossEntropy`) with one read of the logits for the statistics and one for the
// gradient, dz_v = g ([v = y] - exp(x_v - shift) / s). One call handles a block of rows with the
// threads of the rank; rows without a target are not read. float32 statistics whatever the dtype of
// the logits; denormal numbers count as zero. The same bits on every run, whatever the threads.
#pragma once

#include <cstdint>
#include <span>

#include "harness/core/dtype.h"
#include "harness/device/device.h"
#include "harness/problem/batch/sharding.h"

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
  Device* device = nullptr;     // whose kernels work on them; null: the processor's

  /// The part [begin, begin + count).
  LogitsRows slice(std::int64_t begin, std::int64_t count) const;
};

/// Statistics of rows over the valid columns of one shard, relative to a logit of the row, its
/// shift: the largest one where all statistics are asked for, else one that is at most 8.4 below
/// it, so that sums stay far from overflow without a pass that looks for the maximum. -inf where
/// nothing but -inf is in the shard; then the sums are 0.
struct RowStatistics {
  float* shift;
  float* sum;     // of exp(x - shift)
  float* target;  // x_y - shift where the shard owns the target, else 0
  // All statistics, or both null:
  float* weighted = nullptr;  // sum of exp(x - shift) (x - shift), of which the entropy is made
  float* min = nullptr;       // smallest logit that is not -inf; +inf where there is none
};

/// Longest serial float32 add chain of `rows_statistics`.
inline constexpr int kStatisticsSerialAdds = 22;

/// Fills all arrays, [rows]; rows that predict nothing have shift 0, sum 1 and else 0. Returns how
/// many valid targets the shard owns.
std::int64_t rows_statistics(const LogitsRows& rows, const RowStatistics& out);

/// out [rows, width] in the dtype of the logits := grad[r] ([v = y] - exp(x - shift[r]) / sum[r]);
/// rows with grad 0 and padding columns become 0 without being read. `out` may be the logits; else
/// a large one is written past the caches.
void rows_gradient(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                   void* out);

}  // namespace lossgrid
