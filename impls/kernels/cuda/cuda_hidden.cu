// SPDX-License-Identifier: Apache-2.0
// Kernels of hidden_rows.h on GPUs.
#include "harness/device/cuda/on_gpu.cuh"
#include "impls/kernels/cuda/hidden_kernels-inl.h"

namespace lossgrid {
namespace {

const OnGpu<LaunchGatherRows, LaunchClearRows, LaunchRoundRows, LaunchWriteFloats> hidden_rows;

}  // namespace
}  // namespace lossgrid
