// SPDX-License-Identifier: Apache-2.0
// Sentences about numbers that ranks over DP and CP should hold alike after a train step and do
// not: a gradient, or a loss, that was not reduced, was reduced on some axis only, or is on one
// rank.
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
  ReplicaProducts products;  // empty: nothing is known
  bool differ = false;       // the ranks hold other bits
  bool failed = false;       // a comparison with the truth has failed
  // Part of the valid tokens of the batch that each rank has, dp rank by dp rank; empty: unknown.
  std::vector<double> token_shares = {};
  std::int64_t holders = 0;  // of each element of a gradient in slices; 0: all ranks hold all
};

/// Adds the mistake that explains the numbers of the ranks, and returns true, if one does.
bool add_replicas(const ReplicaFacts& facts, std::vector<std::string>& out);

}  // namespace lossgrid
