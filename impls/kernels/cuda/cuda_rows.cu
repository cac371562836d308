// SPDX-License-Identifier: Apache-2.0
// Kernels of rows.h on GPUs.
#include "harness/device/cuda/on_gpu.cuh"
#include "impls/kernels/cuda/product_kernels-inl.h"
#include "impls/kernels/cuda/rounded_gradient-inl.h"
#include "impls/kernels/cuda/row_kernels-inl.h"
#include "impls/kernels/cuda/term_kernels-inl.h"

namespace lossgrid {
namespace {

const OnGpu<LaunchStatistics, LaunchGradient, LaunchRoundedGradient, LaunchForwardBackward> rows;
const OnGpu<LaunchTermStatistics, LaunchTermGradient> terms;
const OnGpu<LaunchMergeTiles> tiles;

}  // namespace
}  // namespace lossgrid
