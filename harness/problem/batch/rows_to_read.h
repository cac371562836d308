// SPDX-License-Identifier: Apache-2.0
// Rows of a padded pack that hold values which an implementation may read. All others are poisoned,
// so that one which multiplies by a mask instead of selecting shows. Internal to the shards of
// logits and hidden states.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Returns [T_pad] the token whose row stands at each padded position; -1 for padding, and for rows
/// that are poisoned because they predict nothing that counts.
std::vector<std::int64_t> rows_to_read(const Problem& problem, const PackedLayout& layout);

}  // namespace lossgrid
