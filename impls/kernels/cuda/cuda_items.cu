// SPDX-License-Identifier: Apache-2.0
// Items (harness/device/kernel/items.h) on a GPU: a line for each.
#include "harness/device/cuda/device_block.cuh"
#include "harness/device/cuda/items-inl.h"
#include "impls/row_positions.h"
#include "impls/statistics_rows.h"

namespace lossgrid {
namespace {

template <class Item>
struct OnGpu {
  OnGpu() {
    cuda_items<Item> = [](void* stream, const Item& item, std::int64_t count) -> const char* {
      DeviceLauncher launcher(stream);
      launch_items(launcher, item, count);
      return launcher.said();
    };
  }
};

const OnGpu<NegateMin> negate_min;
const OnGpu<MergeRow> merge_row;
const OnGpu<MoveShift> move_shift;
const OnGpu<WriteRow> write_row;
const OnGpu<ScatterRow> scatter_row;
const OnGpu<PickRow> pick_row;
const OnGpu<ScaleRow> scale_row;

}  // namespace
}  // namespace lossgrid
