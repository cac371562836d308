// SPDX-License-Identifier: Apache-2.0
// Groups of sequences whose valid tokens are counted together: neighbours that answer one prompt,
// or the sequences of one pack. A group of neighbours may be spread over dp ranks and microbatches.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Puts sequence i of the whole batch into group groups[i] of `count` ones, and counts their valid
/// tokens. With count = 0 there are no groups.
void set_groups(Problem& problem, std::vector<std::int64_t> groups, std::int64_t count);

/// Makes groups of `size` neighbours, of which the last may have fewer; 0: none.
void set_neighbour_groups(Problem& problem, std::int64_t size);

}  // namespace lossgrid
