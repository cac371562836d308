// SPDX-License-Identifier: Apache-2.0
// Limits of the shared memory of blocks. A kernel's own variables and CUDA's reserve (1 KiB a
// block) come on top of the dynamic shared memory of a launch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lossgrid {

inline constexpr std::int64_t kBlockOverheadBytes = 2 * 1024;

/// True if a launch needs cudaFuncAttributeMaxDynamicSharedMemorySize: without it kernels have 48
/// KiB.
constexpr bool must_be_allowed(std::size_t shared_bytes) {
  return static_cast<std::int64_t>(shared_bytes) + kBlockOverheadBytes > 48 * 1024;
}

/// Returns the dynamic shared memory of a block such that two blocks fit on an SM with `of_sm`
/// bytes; at most `of_block`, the limit of one block.
constexpr std::int64_t room_beside_another(std::int64_t of_sm, std::int64_t of_block) {
  const std::int64_t half = of_sm / 2 < of_block ? of_sm / 2 : of_block;
  return half > kBlockOverheadBytes ? half - kBlockOverheadBytes : 0;
}

}  // namespace lossgrid
