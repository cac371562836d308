// SPDX-License-Identifier: Apache-2.0
// Kernels over rows of a vocab shard, on the backend of the rows: the pieces of a sharded
// log-softmax (Megatron-LM `_VocabParallelCrossEntropy`) with one read of the logits for the
// statistics and one for the gradient. The gradient of a row is a combination of known vectors,
//   dx_v = z'(x_v) (a ([v = y] - p_v) + p_v (b + c ln p_v) + d),   p_v = exp(z_v - shift) / s,
// whose coefficients follow from d loss / d (log-probability, entropy, ...) (row_gradient.h); for
// the log-probability alone it is g ([v = y] - p_v). One call handles a block of rows: on the
// processor with the threads of the rank, on a GPU as a launch without waiting. Rows without a
// target are not read. Statistics are float32 for every dtype of the logits; denormal numbers count
// as zero. Bits are the same on every run and for every number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "harness/core/dtype.h"
#include "harness/device/device.h"
#include "harness/problem/batch/row_terms.h"
#include "harness/problem/batch/sharding.h"
#include "harness/problem/values/row_transform.h"
#include "impls/kernels/row_gradient.h"

namespace lossgrid {

/// Targets of rows, global vocab ids, -1: the row predicts nothing. Kernels of a GPU have a copy in
/// GPU memory, because each row begins with its target.
struct RowTargets {
  const std::int32_t* host = nullptr;
  const std::int32_t* kernel = nullptr;

  RowTargets() = default;
  // Conversions, so that targets of rows are made from one array and read as one array.
  RowTargets(const std::int32_t* both) : host(both), kernel(both) {}
  RowTargets(const std::int32_t* host, const std::int32_t* kernel) : host(host), kernel(kernel) {}
  operator const std::int32_t*() const { return host; }
  /// Returns the targets of rows from `begin` on.
  RowTargets from(std::int64_t begin) const { return {host + begin, kernel + begin}; }
};

/// Rows of this rank's shard, row-major, `shard.width` elements from row to row, of which
/// shard.valid() are valid.
struct LogitsRows {
  DType dtype;
  const void* data;
  std::int64_t rows;
  VocabShard shard;
  RowTargets targets;         // [rows]
  const std::uint8_t* valid;  // [rows]
  Device* device = nullptr;   // device that holds the rows; null: the processor
  // True: the processor writes gradients that are not in place past the caches.
  bool past_caches = false;
  // V, over all shards. Set if a gradient has terms other than the log-probability.
  std::int64_t vocab = 0;
  // [rows] maps to the logits z of statistics and gradient; null: z = x.
  const RowTransform* transforms = nullptr;
  // [rows, words] kept columns (kept_columns.h); logits of other columns count as -inf; null: all
  // columns are kept.
  const std::uint64_t* kept = nullptr;
  // Logits of a teacher, row for row of the same shard, if the loss has a divergence from the
  // teacher.
  DType teacher_dtype = DType::f32;
  const void* teacher = nullptr;
  const RowTransform* teacher_transforms = nullptr;
  Divergence divergence = {};

  /// Returns the part [begin, begin + count).
  LogitsRows slice(std::int64_t begin, std::int64_t count) const;
  /// True if a gradient is written past the caches into `out`.
  bool streams(const void* out) const { return past_caches && out != data; }
};

/// Statistics of rows over the valid columns of one shard, for logits z after any transform,
/// relative to a logit of the row, its shift. The shift is the maximum if more than the first three
/// statistics are requested, or if there are transforms. Otherwise kernels of the processor may use
/// a logit at most 8.4 below the maximum: sums stay far from overflow without a pass that searches
/// the maximum. The shift is -inf if all logits of the shard are -inf; then the sums are 0.
struct RowStatistics {
  float* shift;
  float* sum;     // of exp(z - shift)
  float* target;  // z_y - shift if the shard owns the target, else 0
  // Both set (all statistics) or both null:
  float* weighted = nullptr;  // sum of exp(z - shift) (z - shift), a term of the entropy
  float* min = nullptr;       // smallest z that is not -inf; +inf without such a z
  // For a mean over the vocabulary, both set or both null, with or without the previous pair:
  float* total = nullptr;   // sum of z - shift over columns that are not -inf
  float* finite = nullptr;  // number of these columns
  // About predictions, both set or both null; only with the previous pair:
  float* squares = nullptr;  // sum of exp(2 (z - shift))
  // 1 if the shard owns the target and has a column with a larger logit, or with the same logit and
  // a lower id; else 0.
  float* beaten = nullptr;
};

/// Longest serial float32 add chain of `rows_statistics`.
inline constexpr int kStatisticsSerialAdds = 22;

/// Fills all arrays, [rows]; rows that predict nothing get sum 1 and 0 for all other statistics.
/// Returns the number of valid targets that the shard owns.
std::int64_t rows_statistics(const LogitsRows& rows, const RowStatistics& out);

/// out [rows, width] in the dtype of the logits := the gradient, by x. Rows whose gradients are all
/// 0, columns with -inf except the target's, and padding columns become 0; such rows and padding
/// are not read. A divergence excludes all other terms (divergence_rows.h). A target of -inf has p
/// = 0 and d = 0, and thus the gradient a, or 0 below a limit. `out` may be the logits; else a
/// large `out` is written past the caches.
void rows_gradient(const LogitsRows& rows, const RowSoftmax& softmax, const RowGradients& gradients,
                   void* out);

/// Overwrites the float32 logits `data` of `rows` with rows_gradient(), rounded to bf16 at the
/// begin of the memory of each row: afterwards rows are 2 width elements apart. On a GPU it takes
/// one pass over memory if the loss depends on the log-probability alone and rows have neither
/// transforms nor a mask.
void rows_gradient_rounded(const LogitsRows& rows, const RowSoftmax& softmax,
                           const RowGradients& gradients, float* data);

/// Fused forward-backward: makes rows_statistics (three statistics) and rows_gradient into
/// `gradient`, which may be the logits, in one pass over memory, with the same bits except for the
/// rounding of one product. Requires float32 or bf16 logits without transforms or a mask, d loss /
/// d logprob known beforehand as the only gradient, and a shard that is the whole vocabulary.
/// Returns the number of valid targets that the shard owns.
std::int64_t rows_forward_backward(const LogitsRows& rows, const float* grad,
                                   std::span<float> scratch, const RowStatistics& out,
                                   void* gradient);

/// Returns the floats of scratch that rows_forward_backward needs on the processor for rows of
/// `shard`, with the rank's current number of threads.
std::int64_t forward_backward_scratch_floats(DType dtype, const VocabShard& shard, bool in_place);

}  // namespace lossgrid
