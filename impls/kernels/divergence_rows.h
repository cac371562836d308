// SPDX-License-Identifier: Apache-2.0
// Kernels over rows of a vocab shard of a student's logits beside those of a teacher: divergences
// (harness/problem/batch/row_terms.h) and their gradients by the student's logits. Statistics of
// both, merged over the shards, come before: p and q are exponentials over their sums, of
// transformed logits. Both tensors are read once for a divergence and once for its gradient;
// nothing of their size is made. Arithmetic is float32 for every dtype. Where it runs, and the same
// bits for every number of threads: as rows.h.
#pragma once

#include "harness/problem/batch/row_terms.h"
#include "impls/kernels/rows.h"

namespace lossgrid {

/// Rows of a student and of its teacher. The teacher has the same shard, row for row, an own dtype
/// and own transforms; its targets, valid and device are not read.
struct DistilledRows {
  LogitsRows student;
  LogitsRows teacher;
  Divergence divergence;
};

/// Returns the rows of `logits`, which have a teacher, and of that.
DistilledRows distilled(const LogitsRows& logits);

/// Sums over the columns of a shard, [rows] each: parts of D and, of the student, of the gradient.
struct DivergenceSums {
  float* of_teacher;  // sum q (ln q - ln r), r = p (forward, mixed) or m (jsd); 0 for reverse
  // sum p (ln p - ln r), r = q (reverse, mixed) or m (jsd); 0 for forward; of a clamped one the sum
  // of q over the ids whose ln p is above the clamp.
  float* of_student;
};

/// Fills shift (the maximum) and sum of the student's logits z over the columns in which the
/// teacher's are not -inf, or with a tail over the others, as rows_statistics does; -inf and 0
/// where there are none.
void rows_support_statistics(const DistilledRows& rows, float* shift, float* sum);

/// Fills both sums; rows that predict nothing get 0. `p`, `q`: merged statistics of the student (on
/// the support, if the divergence is on it) and of the teacher, whose logits are ln q where it
/// takes log-probabilities: shift 0 and sum 1. Summands whose factor q or p is 0 are 0; columns
/// outside of the teacher's support have none with `on_support`, and those of TailRow with a tail.
void rows_divergence(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                     const DivergenceSums& out);

/// out [rows, width] in the dtype of the student := d loss / d x, with g = gradient[r], which is
/// d loss / d D, and R = of_student[r], merged over the shards:
///   forward  z' g (p - q),  reverse  z' g p (ln p - ln q - R),
///   jsd      z' g (1 - b) p (ln(p / m) - R),  mixed  b of the first, 1 - b of the second,
///   clamped  z' g (R p - q), with q where it counts in R and 0 elsewhere,  z' = dz / dx.
/// With a tail p of a forward one is multiplied by the sum of q.
/// Rows with g = 0, columns of -inf of the student, padding, and columns outside of the support
/// with `on_support` become 0; such rows are not read. `out` may be the student's logits.
void rows_divergence_gradient(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                              const float* of_student, const float* gradient, void* out);

}  // namespace lossgrid
