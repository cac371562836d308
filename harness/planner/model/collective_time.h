// SPDX-License-Identifier: Apache-2.0
// Time of a collective of a group of ranks, by algorithm: steps times latency, and bytes of a rank
// divided by the rate of the slowest link. Nothing overlaps, and no other group is in the way.
//
// n: payload as communicators count it (counting_communicator.h); p: ranks; L, B: latency and rate
// of a link. On one level of links:
//
//                   ring                              tree
//   all_reduce      2 (p-1)/p n/B + 2 (p-1) L         2 n/B + 2 log2(p) L
//   all_gather      (p-1) n/B + (p-1) L               (p-1) n/B + log2(p) L
//   reduce_scatter  (p-1)/p n/B + (p-1) L             (p-1)/p n/B + log2(p) L
//   broadcast       n/B + (p-1) L                     n/B + log2(p) L
//
// Rings and recursive doubling: Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", 2005. Pipelined pairs of trees: Sanders, Speck and Traff,
// "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009. Direct: ranks that
// see each other's memory meet once, (p-1) L, and copy as much as in a ring. A ring that leaves a
// node crosses the outer link once for every node, as in the tuning of NCCL. Hierarchical: rings on
// one level after the other, the outer rings with the results of the inner rings.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/comm/communicator.h"
#include "harness/planner/model/machine.h"

namespace lossgrid {

/// One level of a group: a number of parts joined by a link.
struct GroupLevel {
  std::int64_t parts = 1;
  LinkLevel link;
};

/// Returns the levels of a group of `ranks` ranks whose numbers are `stride` apart, from the inside
/// to the outside, without levels that join a single part.
std::vector<GroupLevel> group_levels(const Transport& transport, std::int64_t ranks,
                                     std::int64_t stride);

struct CollectiveTime {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  double seconds = 0;
};

/// Returns the time of one collective without the time of its call. A group of one takes 0; a
/// barrier takes as long as an empty all-reduce.
double collective_seconds(CollectiveAlgorithm algorithm, Collective operation,
                          const std::vector<GroupLevel>& levels, double payload_bytes);

/// Returns the fastest algorithm of the transport, with the time of the call.
CollectiveTime fastest_collective(const Transport& transport, Collective operation,
                                  const std::vector<GroupLevel>& levels, double payload_bytes);

/// Returns the levels with the links available to one of `ranks` ranks that share a device, for a
/// collective with this payload: at the rates of the device's cache if it holds the buffers of all
/// ranks.
std::vector<GroupLevel> shared_levels(const std::vector<GroupLevel>& levels, const Machine& machine,
                                      const Transport& transport, std::int64_t ranks,
                                      Collective operation, double payload_bytes);

}  // namespace lossgrid
