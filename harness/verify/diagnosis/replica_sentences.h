// SPDX-License-Identifier: Apache-2.0
// Sentences about a gradient or a loss that should be the same on all ranks over DP and CP after a
// train step, and differs: it was not reduced, was reduced over one axis only, or is on one rank
// only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/verify/checks/replicas.h"

namespace lossgrid {

/// Axes over which a reduction may be missing.
struct ReducedAxes {
  const char* text;   // "DP and CP"
  const char* ranks;  // "dp rank"
  bool dp;
  bool cp;
};

inline constexpr std::array<ReducedAxes, 3> kReducedAxes{{{"DP", "dp rank", true, false},
                                                          {"CP", "cp rank", false, true},
                                                          {"DP and CP", "rank", true, true}}};

struct ReplicaFacts {
  std::string name;          // "grad_weight", "loss"
  ReplicaProducts products;  // empty: unknown
  bool differ = false;       // ranks hold different bits
  bool failed = false;       // a comparison with the truth failed
  // Share of each rank in the valid tokens of the batch, dp rank by dp rank; empty: unknown.
  std::vector<double> token_shares = {};
  std::int64_t holders = 0;  // of each element in slices; 0: every rank holds all
};

/// Adds the mistake that explains the numbers of the ranks. Returns true if there is such a
/// mistake.
bool add_replicas(const ReplicaFacts& facts, std::vector<std::string>& out);

}  // namespace lossgrid
