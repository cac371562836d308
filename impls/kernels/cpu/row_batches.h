// SPDX-License-Identifier: Apache-2.0
// RowBatch: rows that a kernel computes side by side. It reads their streams of memory at the same
// time, and the arithmetic of one row overlaps the loads of another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "impls/kernels/cpu/row_parts.h"

namespace lossgrid {

template <std::size_t kRows>
struct RowBatch {
  std::array<std::int64_t, kRows> rows;
  std::size_t count = 0;

  bool is_full() const { return count == kRows; }
};

/// Calls compute(batch, following) for batches of the rows of a part with wanted(row), in order;
/// `following` is the next batch, perhaps empty. Only the last batch may be incomplete.
template <std::size_t kRows, typename Wanted, typename Compute>
void for_each_batch(std::int64_t rows, const RowPart& part, const Wanted& wanted,
                    const Compute& compute) {
  std::int64_t row = part.first();
  const auto next_batch = [&] {
    RowBatch<kRows> batch;
    for (; row < rows && !batch.is_full(); row = part.next(row)) {
      if (wanted(row)) batch.rows[batch.count++] = row;
    }
    return batch;
  };
  RowBatch<kRows> following = next_batch();
  while (following.count > 0) {
    const RowBatch<kRows> batch = following;
    following = next_batch();
    compute(batch, following);
  }
}

}  // namespace lossgrid
