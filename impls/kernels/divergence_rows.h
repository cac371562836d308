// SPDX-License-Identifier: Apache-2.0
// Kernels over rows of a vocab shard of a student's and a teacher's logits: divergences
// (harness/problem/batch/row_terms.h) and their gradients by the student's logits. They need
// statistics of both, merged over the shards: p and q are exponentials of transformed logits,
// divided by their sums. Both tensors are read once for a divergence and once for its gradient;
// nothing of their size is made. Arithmetic is float32 for every dtype. As in rows.h, kernels run
// on the backend of the rows, with the same bits for every number of threads.
#pragma once

#include "harness/problem/batch/row_terms.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

/// Rows of a student and of its teacher. The teacher has the same shard, row for row, with its own
/// dtype and transforms; its targets, valid and device are not read.
struct DistilledRows {
  LogitsRows student;
  LogitsRows teacher;
  Divergence divergence;
};

/// Returns the rows of `logits` and of its teacher. Requires a teacher.
DistilledRows distilled(const LogitsRows& logits);

/// Sums over the columns of a shard, [rows] each: parts of D; the student's sum is also part of the
/// gradient.
struct DivergenceSums {
  float* of_teacher;  // sum q (ln q - ln r), r = p (forward, mixed) or m (jsd); 0 for reverse
  // sum p (ln p - ln r), r = q (reverse, mixed) or m (jsd); 0 for forward; for a clamped divergence
  // the sum of q over the ids whose ln p is above the clamp.
  float* of_student;
};

/// Fills shift (the maximum) and sum of the student's logits z, like rows_statistics, over the
/// columns in which the teacher's logit is not -inf, or with a tail over the other columns; -inf
/// and 0 without such columns.
void rows_support_statistics(const DistilledRows& rows, float* shift, float* sum);

/// Fills both sums; rows that predict nothing get 0. `p` and `q` are merged statistics of the
/// student (on the support, if the divergence is on the support) and of the teacher, which has
/// shift 0 and sum 1 if its logits are taken as log-probabilities ln q. Summands whose factor q or
/// p is 0 are 0. Columns outside of the teacher's support have no summands with `on_support`, and
/// those of TailRow with a tail.
void rows_divergence(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                     const DivergenceSums& out);

/// out [rows, width] in the dtype of the student := d loss / d x, with g = gradient[r], which is
/// d loss / d D, and R = of_student[r], merged over the shards:
///   forward  z' g (p - q),  reverse  z' g p (ln p - ln q - R),
///   jsd      z' g (1 - b) p (ln(p / m) - R),  mixed  b of the first, 1 - b of the second,
///   clamped  z' g (R p - q), with q where it counts in R and 0 elsewhere,  z' = dz / dx.
/// With a tail, p of a forward divergence is multiplied by the sum of q. Rows with g = 0, columns
/// in which the student has -inf, padding, and with `on_support` columns outside of the support
/// become 0; rows with g = 0 are not read. `out` may be the student's logits.
void rows_divergence_gradient(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                              const float* of_student, const float* gradient, void* out);

}  // namespace lossgrid
