// SPDX-License-Identifier: Apache-2.0
// Right division of a vocabulary over TP ranks. The harness lays out logits with it;
// implementations may use it or do it their own way.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/problem/values/vocab_shard.h"

namespace lossgrid {

/// Returns the shard of `tp_rank`: ceil(V / tp) ids each, the last ones fewer; a vocabulary of one
/// id is whole on every rank.
VocabShard vocab_shard(std::int64_t vocab, int tp, int tp_rank);

/// Returns the ids at which an off-by-one in the bounds of a shard shows: 0, V - 1 and the first
/// and last ids of every shard for tp = 2, 4 and 8; sorted.
std::vector<std::int32_t> shard_edge_ids(std::int64_t vocab);

}  // namespace lossgrid
