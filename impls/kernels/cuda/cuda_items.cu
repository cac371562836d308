// SPDX-License-Identifier: Apache-2.0
// Items (harness/device/kernel/items.h) on GPUs.
#include "harness/device/cuda/on_gpu.cuh"
#include "harness/device/kernel/launch_items.h"
#include "impls/kernels/row_positions.h"
#include "impls/kernels/statistics_rows.h"
#include "impls/kernels/teacher_rows.h"

namespace lossgrid {
namespace {

template <class... Items>
using ItemsOnGpu = OnGpu<LaunchItems<Items>...>;

const ItemsOnGpu<NegateMin, MergeRow, MoveShift, WriteRow> statistics;
const ItemsOnGpu<MergePairs, MakeTail, SetRows, WriteDivergence> teacher;
const ItemsOnGpu<ScatterRow, GatherRow, ScaleRow> positions;

}  // namespace
}  // namespace lossgrid
