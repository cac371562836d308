// SPDX-License-Identifier: Apache-2.0
// reduce_by_warps: a reduction over the threads of a block as the code of each thread, from
// barriers, shuffles of a warp and a value a warp in shared memory.
#pragma once

#include "harness/device/kernel/portable.h"

namespace lossgrid {

/// Returns the values of a warp, reduced as a tree, to lane 0; other lanes get partial results.
template <typename Block, typename T, typename Merge>
LOSSGRID_KERNEL T reduce_warp(Block& block, T value, Merge&& merge) {
  for (int offset = kWarpThreads / 2; offset > 0; offset /= 2) {
    value = merge(value, block.from_lane_below(value, offset));
  }
  return value;
}

/// Reduces the values of all threads by merge(a, b), as a tree within every warp, then as a tree
/// over the warps; returns the result to every thread. `none` is the neutral element of merge.
template <typename Block, typename T, typename Merge>
LOSSGRID_KERNEL T reduce_by_warps(Block& block, T value, const T& none, Merge&& merge) {
  T* of_warps = block.template of_warps<T>();
  const int lane = block.thread() % kWarpThreads;
  const int warp = block.thread() / kWarpThreads;
  value = reduce_warp(block, value, merge);
  block.sync();  // the previous reduction may still read of_warps
  if (warp == 0) of_warps[lane] = none;
  block.sync();
  if (lane == 0) of_warps[warp] = value;
  block.sync();
  if (warp == 0) {
    const T whole = reduce_warp(block, of_warps[lane], merge);
    if (lane == 0) of_warps[0] = whole;
  }
  block.sync();
  return of_warps[0];
}

}  // namespace lossgrid
