// SPDX-License-Identifier: Apache-2.0
// Parts of the true gradient of a weight: sums over some of the rows each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Batches for which parts are made; others would take too long.
inline constexpr std::int64_t kMostWeightParts = 64;
inline constexpr std::int64_t kMostWeightElements = std::int64_t{1} << 16;  // of a shard

/// Squared rest of a gradient, relative to it, that roundings may leave: of 0.3 %.
inline constexpr double kWeightRestSquared = 1e-5;
/// Difference of two factors, relative to 1 or to them, that roundings may make.
inline constexpr double kSameWeightFactor = 5e-3;

/// True if the parts of a gradient of `elements` elements [ids, H] can be made.
bool has_weight_parts(const Problem& problem, const VocabShard& shard, std::size_t elements,
                      std::int64_t parts);

/// Returns the parts [parts][ids, H] for the ids of `shard`; `part_of_row` [T]: -1 for none.
std::vector<std::vector<double>> true_weight_parts(const Problem& problem, const Truth& truth,
                                                   const VocabShard& shard,
                                                   std::span<const int> part_of_row, int parts);

}  // namespace lossgrid
