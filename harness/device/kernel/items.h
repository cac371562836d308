// SPDX-License-Identifier: Apache-2.0
// The same work on items that know nothing of each other (rows, tokens): a loop on the processor, a
// thread each on a GPU. An item is a struct of plain data with portable code (portable.h),
//   LOSSGRID_KERNEL void operator()(std::int64_t k) const
// that a .cu file names for GPUs (cuda_items.cu of the layer).
#pragma once

#include "harness/device/cuda/emulated_launch.h"
#include "harness/device/cuda/items-inl.h"
#include "harness/device/cuda/launched.h"
#include "harness/device/device.h"

namespace lossgrid {

/// item(k) for k in [0, count), on memory of `device`.
template <class Item>
void for_each_item(Device& device, std::int64_t count, const Item& item) {
  if (device.backend() == Backend::cpu) {
    for (std::int64_t k = 0; k < count; ++k) item(k);
    return;
  }
  if (count == 0) return;
  const char* said = nullptr;
  if (device.backend() == Backend::cuda_emulated) {
    said = launch_emulated(device.stream(),
                           [=](HostLauncher& launcher) { launch_items(launcher, item, count); });
  } else {
    said = cuda_items<Item> == nullptr ? "not in this build"
                                       : cuda_items<Item>(device.stream(), item, count);
  }
  require_launched(said, "of items");
}

}  // namespace lossgrid
