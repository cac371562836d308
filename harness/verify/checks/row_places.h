// SPDX-License-Identifier: Apache-2.0
// `RowPlace`: the true token of a row of a rank or of a padded pack.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

struct RowPlace {
  std::int64_t sequence = -1;  // sequence of the whole batch
  std::int64_t offset = -1;    // offset in the padded sequence
  std::int64_t row = -1;       // true token row of the problem (a part or the whole), -1 for a pad
};

/// Returns the place of each padded position (cp_rows of a rank, or 0 .. T_pad of the pack).
std::vector<RowPlace> place_rows(const Problem& problem, std::span<const std::int64_t> cu_padded,
                                 std::span<const std::int64_t> positions);

}  // namespace lossgrid
