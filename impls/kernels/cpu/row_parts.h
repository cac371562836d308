// SPDX-License-Identifier: Apache-2.0
// RowPart: the rows that a thread of a rank computes. Small groups are dealt in turn, because rows
// of prompts are adjacent and cost less than other rows. Every row is computed independently, so
// the bits do not depend on the partition.
#pragma once

#include <algorithm>
#include <cstdint>

#include "harness/device/kernel/rank_threads.h"

namespace lossgrid {

/// One of `parts` equal shares of `rows` rows.
struct RowPart {
  std::int64_t rows;
  std::int64_t part;
  std::int64_t parts;

  /// The following functions return the first row of the part, and the row of the part after `row`;
  /// `rows` if the part has no further row.
  std::int64_t first() const { return std::min(rows, part * group()); }
  std::int64_t next(std::int64_t row) const {
    const bool within = (row + 1) % group() != 0;
    return std::min(rows, within ? row + 1 : row + 1 + (parts - 1) * group());
  }

 private:
  std::int64_t group() const { return std::clamp<std::int64_t>(rows / (4 * parts), 1, 8); }
};

/// Calls work(part) for every part of `rows` with the threads of the rank.
template <typename Work>
void for_each_part(std::int64_t rows, Work&& work) {
  const std::int64_t parts = std::min<std::int64_t>(rank_threads(), rows);
  parallel_for(parts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) work(RowPart{rows, part, parts});
  });
}

}  // namespace lossgrid
