// SPDX-License-Identifier: Apache-2.0
// launch_keeping_rows: launches of kernels that read a row twice, and keep as much of the row on
// chip as fits. A row that is too long for one block is shared by the blocks of a cluster, where
// the GPU has clusters (device_cluster.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/device/kernel/block_sums.h"

namespace lossgrid {

/// Blocks of a cluster that every GPU with clusters can run (CUDA C++ Programming Guide, "Thread
/// Block Clusters").
inline constexpr int kMostClusterBlocks = 8;

struct RowsOnChip {
  int blocks = 1;                 // blocks of a row, a power of 2
  std::int64_t kept = 0;          // vectors of a row that stay on chip
  std::int64_t shared_bytes = 0;  // shared memory of a block
};

/// Returns the fewest blocks, each with room for `room` vectors, that hold `row_vectors` vectors;
/// `most` blocks if more would be needed. Threads of several blocks take vectors in turns, one
/// vector each.
constexpr RowsOnChip rows_on_chip(std::int64_t row_vectors, std::int64_t room, int most) {
  if (row_vectors <= room || most == 1) {
    const std::int64_t kept = row_vectors < room ? row_vectors : room;
    return {1, kept, kept * kVectorBytes};
  }
  const std::int64_t turns = room / kBlockThreads;
  int blocks = 2;
  while (blocks < most && blocks * turns * kBlockThreads < row_vectors) blocks *= 2;
  const std::int64_t of_turn = std::int64_t{blocks} * kBlockThreads;
  const std::int64_t needed = (row_vectors + of_turn - 1) / of_turn;
  if (needed <= turns) return {blocks, row_vectors, needed * kBlockThreads * kVectorBytes};
  return {blocks, turns * of_turn, turns * kBlockThreads * kVectorBytes};
}

/// Launches the kernel make(kept), with one block or cluster per row.
template <typename Launcher, typename Make>
void launch_keeping_rows(Launcher& launcher, Make&& make, std::int64_t rows,
                         std::int64_t row_vectors) {
  const std::int64_t room = launcher.room_of_block() / kVectorBytes;
  if constexpr (requires { launcher.most_cluster_blocks(); }) {
    const RowsOnChip shape = rows_on_chip(row_vectors, room, launcher.most_cluster_blocks());
    if (shape.blocks > 1) {
      return launcher.in_clusters(make(shape.kept), rows, shape.blocks,
                                  static_cast<std::size_t>(shape.shared_bytes));
    }
  }
  const RowsOnChip shape = rows_on_chip(row_vectors, room, 1);
  launcher(make(shape.kept), rows, static_cast<std::size_t>(shape.shared_bytes));
}

}  // namespace lossgrid
