// SPDX-License-Identifier: Apache-2.0
// Fused forward-backward of rows (impls/kernels/rows.h) on the processor. The exponentials of a row
// are kept, in place of its logits or in a scratch row, and become its gradient while the next row
// is read: memory is read and written at all times.
#pragma once

#include "impls/kernels/rows.h"

namespace lossgrid {

/// Implements rows_forward_backward, which counts the targets.
void cpu_forward_backward(const LogitsRows& rows, const float* grad, std::span<float> scratch,
                          const RowStatistics& out, void* gradient);

}  // namespace lossgrid
