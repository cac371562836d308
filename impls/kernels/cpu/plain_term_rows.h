// SPDX-License-Identifier: Apache-2.0
// As term_rows.h, for float64 logits; as plain_rows.h, for checks, not for speed.
#pragma once

#include "impls/kernels/rows.h"

namespace lossgrid {

/// As cpu_term_statistics and cpu_term_gradient.
void plain_term_statistics(const LogitsRows& rows, const RowStatistics& out);
void plain_term_gradient(const LogitsRows& rows, const RowSoftmax& softmax,
                         const RowGradients& gradients, void* out);

}  // namespace lossgrid
