// SPDX-License-Identifier: Apache-2.0
// Row kernels with transforms and terms for float64 logits: the functions of term_rows.h in plain
// loops, for checks and not for speed.
#pragma once

#include "impls/kernels/rows.h"

namespace lossgrid {

/// Implement cpu_term_statistics and cpu_term_gradient.
void plain_term_statistics(const LogitsRows& rows, const RowStatistics& out);
void plain_term_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                         const RowGradients& gradients, void* out);

}  // namespace lossgrid
