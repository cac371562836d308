// SPDX-License-Identifier: Apache-2.0
// Statistics and gradient of rows (impls/kernels/rows.h) with transforms, with the statistics of a
// mean over the vocabulary, or with terms other than the log-probability, on the processor;
// vectorised by Highway for float32 and bf16 logits, plain loops for float64 (plain_term_rows.h).
#pragma once

#include "impls/kernels/rows.h"

namespace lossgrid {

/// Implements rows_statistics, which counts the targets.
void cpu_term_statistics(const LogitsRows& rows, const RowStatistics& out);

/// Implements rows_gradient.
void cpu_term_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                       const RowGradients& gradients, void* out);

}  // namespace lossgrid
