// SPDX-License-Identifier: Apache-2.0
// Statistics and gradient of rows (impls/kernels/rows.h) on the processor, vectorised by Highway
// for float32 and bf16 logits, plain loops for float64 (plain_rows.h). Rows with transforms or with
// terms other than the log-probability go to term_rows.h.
#pragma once

#include "impls/kernels/rows.h"

namespace lossgrid {

/// Implements rows_statistics, which counts the targets.
void cpu_statistics(const LogitsRows& rows, const RowStatistics& out);

/// Implements rows_gradient.
void cpu_gradient(const LogitsRows& rows, const RowSoftmax& softmax, const RowGradients& gradients,
                  void* out);

}  // namespace lossgrid
