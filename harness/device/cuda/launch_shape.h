// SPDX-License-Identifier: Apache-2.0
// LaunchShape: grid and shared memory of a launch, checked against the limits of GPUs. Blocks go
// along x, the only dimension that is large enough for a block a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "harness/device/cuda/shared_memory.h"

namespace lossgrid {

enum class LaunchStep {
  nothing,        // no block: CUDA rejects a launch of none
  launch,         // as it is
  allow_shared,   // first the kernel has to be allowed its shared memory, more than the default
  is_impossible,  // more blocks than a grid has, or more shared memory than an int holds
};

struct LaunchShape {
  LaunchStep step = LaunchStep::nothing;
  unsigned blocks = 0;
  int shared_bytes = 0;  // of a block
};

/// Computes the shape. Limits: CUDA C++ Programming Guide, "Compute Capabilities", the x dimension
/// of a grid.
inline LaunchShape launch_shape(std::int64_t blocks, std::size_t shared_bytes) {
  constexpr std::int64_t kMostBlocks = std::numeric_limits<std::int32_t>::max();
  constexpr std::size_t kMostSharedBytes = std::numeric_limits<int>::max();
  if (blocks == 0) return {};
  if (blocks < 0 || blocks > kMostBlocks || shared_bytes > kMostSharedBytes) {
    return {LaunchStep::is_impossible, 0, 0};
  }
  return {must_be_allowed(shared_bytes) ? LaunchStep::allow_shared : LaunchStep::launch,
          static_cast<unsigned>(blocks), static_cast<int>(shared_bytes)};
}

}  // namespace lossgrid
