// SPDX-License-Identifier: Apache-2.0
// LaunchItems: the launch of an item (items.h), with one thread for each item. nvcc compiles this
// header.
#pragma once

#include "harness/device/kernel/portable.h"

namespace lossgrid {

template <class Item>
struct ItemsKernel {
  Item item;
  std::int64_t count;

  template <typename Block>
  LOSSGRID_KERNEL void operator()(Block& block) const {
    block.run([&](int thread) {
      const std::int64_t k = block.index() * block.threads() + thread;
      if (k < count) item(k);
    });
  }
};

template <class Item>
struct LaunchItems {
  static constexpr const char* kName = "of items";
  Item item;
  std::int64_t count;

  template <typename Launcher>
  void operator()(Launcher& launcher) const {
    launcher(ItemsKernel<Item>{item, count}, (count + kBlockThreads - 1) / kBlockThreads, 0);
  }
};

}  // namespace lossgrid
