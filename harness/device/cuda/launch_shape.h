// SPDX-License-Identifier: Apache-2.0
// What a launch of a kernel asks of a GPU, in plain arithmetic. Blocks go along x, the only
// dimension that has room for a block a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "harness/device/cuda/shared_memory.h"

namespace lossgrid {

enum class LaunchStep {
  nothing,        // no block: a launch of none would be an error
  launch,         // as it is
  allow_shared,   // first the kernel has to be allowed its shared memory, more than any has unasked
  is_impossible,  // more blocks than a grid has, or more shared memory than its size can say
};

struct LaunchShape {
  LaunchStep step = LaunchStep::nothing;
  unsigned blocks = 0;
  int shared_bytes = 0;  // of a block
};

/// Limits: CUDA C++ Programming Guide, "Compute Capabilities", the x dimension of a grid.
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
