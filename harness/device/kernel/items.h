// SPDX-License-Identifier: Apache-2.0
// for_each_item: the same work on independent items (rows, tokens), as a loop on the processor and
// with one thread per item on a GPU. An item is a struct of plain data with portable code
// (portable.h),
//   LOSSGRID_KERNEL void operator()(std::int64_t k) const
// that a .cu file names for GPUs (launch.h): OnGpu<LaunchItems<MergeRow>>.
#pragma once

#include "harness/device/kernel/launch.h"
#include "harness/device/kernel/launch_items.h"

namespace lossgrid {

/// Calls item(k) for k in [0, count), on memory of `device`. On a GPU returns without waiting.
template <class Item>
void for_each_item(Device& device, std::int64_t count, const Item& item) {
  if (device.backend() == Backend::cpu) {
    for (std::int64_t k = 0; k < count; ++k) item(k);
  } else if (count > 0) {
    launch_kernels(device, LaunchItems<Item>{item, count});
  }
}

}  // namespace lossgrid
