// SPDX-License-Identifier: Apache-2.0
// Constants of row sums by a block of a CUDA kernel: threads, elements of a thread in one turn, and
// the longest chain of additions that follows from these numbers.
#pragma once

#include <cstdint>

#include "harness/core/process/sanitizers.h"

namespace lossgrid {

/// Threads of every block. In builds with the thread sanitizer they are fibers (tests/fibers), of
/// which the sanitizer distinguishes 255.
inline constexpr int kBlockThreads = LOSSGRID_TSAN ? 128 : 512;
/// Threads that run in lockstep and reduce their values by shuffles.
inline constexpr int kWarpThreads = 32;
/// Bytes that a thread loads at once.
inline constexpr int kVectorBytes = 16;
/// Vectors that a thread loads before it uses the first one.
inline constexpr int kVectorsATurn = 4;

/// Returns the longest serial chain of float32 additions in the sum over `columns` elements of a
/// row: the tree of a turn, the turns of a thread, single vectors and elements at the end of the
/// row, the trees over the lanes of a warp and over warps.
constexpr int block_serial_adds(std::int64_t columns, std::int64_t element_bytes) {
  const std::int64_t turn = kVectorsATurn * kVectorBytes / element_bytes;
  const std::int64_t of_block = turn * kBlockThreads;
  int tree = 0;
  while ((std::int64_t{1} << tree) < turn) ++tree;
  const auto turns = static_cast<int>((columns + of_block - 1) / of_block);
  constexpr int kAtTheEnd = kVectorsATurn - 1 + 1;
  constexpr int kOverThreads = 5 + 5;
  return tree + turns + kAtTheEnd + kOverThreads;
}

}  // namespace lossgrid
