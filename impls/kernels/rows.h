// SPDX-License-Identifier: Apache-2.0
// Kernels over rows of a vocab shard, on the backend of the rows: the pieces of a sharded
// log-softmax (Megatron-LM `_VocabParallelCrossEntropy`) with one read of the logits for the
// statistics and one for the gradient. The gradient of a row is a combination of known vectors,
//   dx_v = z'(x_v) (a ([v = y] - p_v) + p_v (b + c ln p_v) + d),   p_v = exp(z_v - shift) / s,
// whose coefficients follow from d loss / d (log-probability, entropy, ...) (row_gradient.h); of
// the log-probability alone it is g ([v = y] - p_v). One call handles a block of rows, on the
// processor with the threads of the rank, on a GPU launched and not waited for. Rows without a
// target are not read. Statistics are float32 for every dtype of the logits; denormal numbers count
// as zero. The same bits on every run, for every number of threads.
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
/// its memory, since each row begins with its target.
struct RowTargets {
  const std::int32_t* host = nullptr;
  const std::int32_t* kernel = nullptr;

  RowTargets() = default;
  // Conversions, so that the targets of rows are made of one array and read as one.
  RowTargets(const std::int32_t* both) : host(both), kernel(both) {}
  RowTargets(const std::int32_t* host, const std::int32_t* kernel) : host(host), kernel(kernel) {}
  operator const std::int32_t*() const { return host; }
  /// Returns the targets of rows from `begin` on.
  RowTargets from(std::int64_t begin) const { return {host + begin, kernel + begin}; }
};

/// Rows of this rank's shard, row-major, `shard.width` elements from row to row, of which
/// shard.valid() count.
struct LogitsRows {
  DType dtype;
  const void* data;
  std::int64_t rows;
  VocabShard shard;
  RowTargets targets;         // [rows]
  const std::uint8_t* valid;  // [rows]
  Device* device = nullptr;   // that holds them; null: the processor
  // On the processor: gradients that are not in place are written past the caches.
  bool past_caches = false;
  // Set where a gradient has terms beside the log-probability: V, of all shards together.
  std::int64_t vocab = 0;
  // [rows] the map to the logits z that statistics and gradient are about; null: z = x.
  const RowTransform* transforms = nullptr;
  // [rows, words] kept columns (kept_columns.h), logits of all others count as -inf; null: all.
  const std::uint64_t* kept = nullptr;
  // Logits of a teacher, row for row of the same shard, where the loss has a divergence from it.
  DType teacher_dtype = DType::f32;
  const void* teacher = nullptr;
  const RowTransform* teacher_transforms = nullptr;
  Divergence divergence = {};

  /// Returns the part [begin, begin + count).
  LogitsRows slice(std::int64_t begin, std::int64_t count) const;
  /// True if a gradient is written past the caches into `out`.
  bool streams(const void* out) const { return past_caches && out != data; }
};

/// Statistics of rows over the valid columns of one shard, of transformed logits z where there are
/// transforms, relative to a logit of the row, its shift. The shift is the maximum if more than the
/// first three are asked for, or if there are transforms. Otherwise kernels of the processor may
/// use a logit that is at most 8.4 below it: sums stay far from overflow without a pass that looks
/// for the maximum. -inf if the shard holds nothing but -inf; then the sums are 0.
struct RowStatistics {
  float* shift;
  float* sum;     // of exp(z - shift)
  float* target;  // z_y - shift where the shard owns the target, else 0
  // All statistics, or both null:
  float* weighted = nullptr;  // sum of exp(z - shift) (z - shift), a term of the entropy
  float* min = nullptr;       // smallest z that is not -inf; +inf where there is none
  // For a mean over the vocabulary, or both null; with or without the two above:
  float* total = nullptr;   // sum of z - shift over columns that are not -inf
  float* finite = nullptr;  // number of these columns
  // About predictions, or both null; only with the two above:
  float* squares = nullptr;  // sum of exp(2 (z - shift))
  // 1 if the shard owns the target, and a column of it has a larger logit, or the same one and a
  // lower id; else 0.
  float* beaten = nullptr;
};

/// Longest serial float32 add chain of `rows_statistics`.
inline constexpr int kStatisticsSerialAdds = 22;

/// Fills all arrays, [rows]; rows that predict nothing get sum 1, all else 0. Returns the number of
/// valid targets that the shard owns.
std::int64_t rows_statistics(const LogitsRows& rows, const RowStatistics& out);

/// out [rows, width] in the dtype of the logits := the gradient, by x. Rows whose gradients are all
/// 0, columns of -inf but the target's, and padding columns become 0; such rows and padding are not
/// read. With a divergence that is all the gradient is of (divergence_rows.h). A target of -inf has
/// p = 0 and d = 0, thus a, or 0 below a limit. `out` may be the logits; if not, a large one is
/// written past the caches.
void rows_gradient(const LogitsRows& rows, const RowSoftmax& softmax, const RowGradients& gradients,
                   void* out);

/// Overwrites float32 logits `data`, those of `rows`, with rows_gradient(), rounded to bf16 at the
/// beginning of the memory of each row: afterwards rows stand 2 width elements apart. On a GPU one
/// pass over memory, where the loss depends on the log-probability alone and rows have neither
/// transforms nor a mask.
void rows_gradient_rounded(const LogitsRows& rows, const RowSoftmax& softmax,
                           const RowGradients& gradients, float* data);

/// Fused forward-backward, for float32 and bf16 logits without transforms or a mask where d loss /
/// d logprob is known before and is all, and the shard is the whole vocabulary: rows_statistics (of
/// three statistics) and rows_gradient into `gradient`, which may be the logits, in one pass over
/// memory; the same bits but for the rounding of one product. Returns the number of valid targets
/// that the shard owns.
std::int64_t rows_forward_backward(const LogitsRows& rows, const float* grad,
                                   std::span<float> scratch, const RowStatistics& out,
                                   void* gradient);

/// Returns the floats of scratch that rows_forward_backward needs on the processor for rows of
/// `shard`, with the threads that the rank has now.
std::int64_t forward_backward_scratch_floats(DType dtype, const VocabShard& shard, bool in_place);

}  // namespace lossgrid
