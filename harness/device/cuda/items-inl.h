// SPDX-License-Identifier: Apache-2.0
// Items of items.h as code of a block.
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

template <class Item, typename Launcher>
void launch_items(Launcher& launch, const Item& item, std::int64_t count) {
  launch(ItemsKernel<Item>{item, count}, (count + kBlockThreads - 1) / kBlockThreads, 0);
}

/// How a GPU runs items: returns null, or what CUDA says is wrong. A .cu file sets it.
template <class Item>
inline const char* (*cuda_items)(void* stream, const Item&, std::int64_t count) = nullptr;

}  // namespace lossgrid
