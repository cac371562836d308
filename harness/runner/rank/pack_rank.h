// SPDX-License-Identifier: Apache-2.0
// `PackRank`: a rank that runs a pack, its place on the grid and its buffers that outlive a pack.
#pragma once

#include <cstdint>
#include <span>

#include "harness/runner/rank/pack_findings.h"
#include "harness/runner/rank/rank_communicators.h"

namespace lossgrid {

struct PackRank {
  std::int64_t rank;  // of the world
  int tp_rank;
  Grid grid;    // of the microbatch
  int cp_rank;  // on it
  RankCommunicators& communicators;
  RankCounts& counts;  // of the calls of communicators.tp() and cp()
  // Problems that start from hidden states: gradient of this shard of the weight as the packs
  // before left it; a pack adds its own.
  std::span<float> weight_gradient;
};

}  // namespace lossgrid
