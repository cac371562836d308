// SPDX-License-Identifier: Apache-2.0
// How much shared memory blocks get. A kernel's own variables and what CUDA keeps for itself (1 KiB
// a block) come on top of what a launch asks for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lossgrid {

inline constexpr std::int64_t kBlockOverheadBytes = 2 * 1024;

/// Whether a launch needs cudaFuncAttributeMaxDynamicSharedMemorySize: kernels have 48 KiB without.
constexpr bool must_be_allowed(std::size_t shared_bytes) {
  return static_cast<std::int64_t>(shared_bytes) + kBlockOverheadBytes > 48 * 1024;
}

/// What each of two blocks on an SM can ask for, where an SM has `of_sm` bytes and a block may have
/// `of_block`.
constexpr std::int64_t room_beside_another(std::int64_t of_sm, std::int64_t of_block) {
  const std::int64_t half = of_sm / 2 < of_block ? of_sm / 2 : of_block;
  return half > kBlockOverheadBytes ? half - kBlockOverheadBytes : 0;
}

}  // namespace lossgrid
