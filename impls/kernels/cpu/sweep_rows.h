// SPDX-License-Identifier: Apache-2.0
// Forward and backward of rows in one pass over memory, where d loss / d logprob is known before
// and the whole vocabulary is here: the exponentials of a row are kept, in place of its logits or
// in a scratch row, and become its gradient while the next row is read, so that memory is read and
// written all the time. float32 and bf16 logits.
#pragma once

#include "impls/kernels/cpu/softmax_rows.h"

namespace lossgrid {

/// Floats of scratch that rows_sweep needs for rows of `shard`, with the threads that the rank has
/// now.
std::int64_t sweep_scratch_floats(DType dtype, const VocabShard& shard, bool in_place);

/// As rows_statistics (not all of them: `weighted` and `min` are null), then rows_gradient into
/// `gradient`, which may be the logits; the same bits but for the rounding of one product. Returns
/// how many valid targets the shard owns.
std::int64_t rows_sweep(const LogitsRows& rows, const float* grad, std::span<float> scratch,
                        const RowStatistics& out, void* gradient);

}  // namespace lossgrid
