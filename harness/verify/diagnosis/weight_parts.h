// SPDX-License-Identifier: Apache-2.0
// Parts of the true gradient of a weight, each a sum over some of the rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/problem/batch/problem.h"
#include "harness/problem/batch/sharding.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Limits on the batches for which parts are made, because larger batches would take too long.
inline constexpr std::int64_t kMostWeightParts = 64;
inline constexpr std::int64_t kMostWeightElements = std::int64_t{1} << 16;  // elements of a shard

/// Largest squared rest, relative to the squared gradient, that roundings may leave: 0.3 % squared.
inline constexpr double kWeightRestSquared = 1e-5;
/// Largest difference of two factors, relative to 1 or to the factors, that roundings may make.
inline constexpr double kSameWeightFactor = 5e-3;

/// True if the parts of a gradient of `elements` elements [ids, H] can be made.
bool has_weight_parts(const Problem& problem, const VocabShard& shard, std::size_t elements,
                      std::int64_t parts);

/// Returns the parts [parts][ids, H] for the ids of `shard`; `part_of_row` [T] has the part of each
/// row, or -1.
std::vector<std::vector<double>> true_weight_parts(const Problem& problem, const Truth& truth,
                                                   const VocabShard& shard,
                                                   std::span<const int> part_of_row, int parts);

}  // namespace lossgrid
