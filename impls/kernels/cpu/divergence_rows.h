// SPDX-License-Identifier: Apache-2.0
// Divergences of rows from a teacher's (impls/kernels/divergence_rows.h) on the processor. Logits
// of every dtype are read as distances to their shift, computed in the precision of the logits; all
// further arithmetic is float32, vectorised by Highway.
#pragma once

#include "impls/kernels/divergence_rows.h"

namespace lossgrid {

/// Implement rows_support_statistics, rows_divergence and rows_divergence_gradient.
void cpu_support_statistics(const DistilledRows& rows, float* shift, float* sum);
void cpu_divergence(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                    const DivergenceSums& out);
void cpu_divergence_gradient(const DistilledRows& rows, const RowSoftmax& p, const RowSoftmax& q,
                             const float* of_student, const float* gradient, void* out);

}  // namespace lossgrid
