// SPDX-License-Identifier: Apache-2.0
// The row kernels of softmax_rows.h and sweep_rows.h for rows of a CUDA device, or of one that is
// emulated. Each returns when its work is launched; throws internal with what CUDA says.
#pragma once

#include "impls/kernels/cpu/softmax_rows.h"

namespace lossgrid {

bool runs_cuda_kernels(const LogitsRows& rows);

void cuda_statistics(const LogitsRows& rows, const RowStatistics& out);
void cuda_gradient(const LogitsRows& rows, const float* shift, const float* sum, const float* grad,
                   void* out);
void cuda_sweep(const LogitsRows& rows, const float* grad, const RowStatistics& out,
                void* gradient);

}  // namespace lossgrid
