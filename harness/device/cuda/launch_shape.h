// SPDX-License-Identifier: Apache-2.0
// LaunchShape: grid and shared memory of a launch, checked against the limits of GPUs. Blocks lie
// along x, the only dimension large enough for one block per row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "harness/device/cuda/shared_memory.h"

namespace lossgrid {

enum class LaunchStep {
  nothing,        // no block: CUDA rejects an empty launch
  launch,         // launch with the default limit of shared memory
  allow_shared,   // the kernel must first be allowed more shared memory than the default
  is_impossible,  // more blocks than a grid has, or more shared memory than an int holds
};

struct LaunchShape {
  LaunchStep step = LaunchStep::nothing;
  unsigned blocks = 0;
  int shared_bytes = 0;  // dynamic shared memory of a block
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
