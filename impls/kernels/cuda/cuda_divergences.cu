// SPDX-License-Identifier: Apache-2.0
// Kernels of divergence_rows.h on GPUs.
#include "harness/device/cuda/on_gpu.cuh"
#include "impls/kernels/cuda/divergence_kernels-inl.h"

namespace lossgrid {
namespace {

const OnGpu<LaunchSupportStatistics, LaunchDivergence, LaunchDivergenceGradient> divergences;

}  // namespace
}  // namespace lossgrid
