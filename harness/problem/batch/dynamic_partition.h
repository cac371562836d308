// SPDX-License-Identifier: Apache-2.0
// Split of a global batch over the microbatches of a dynamic grid (CpLayout::dynamic), each of
// which has a CP size of its own: one that divides cp x dp, in groups of neighbouring ranks that
// have a pack each (verl's dynamic CP, Megatron-LM's hybrid CP). Long sequences get large groups:
//   - units of sequences are dealt to microbatches at random;
//   - a rank takes at most B = ceil(longest / (cp dp)) tokens of one sequence, for the longest of
//     the batch; a microbatch has the smallest size c with ceil(its longest / c) <= B;
//   - its units are dealt to its cp dp / c packs at random.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/problem/batch/partition.h"

namespace lossgrid {

/// One microbatch of all ranks.
struct MicrobatchPacks {
  int cp = 1;
  std::vector<MicrobatchPlan> packs;  // by dp rank of Grid::with_cp(cp)
};

/// Returns the smallest of the sizes of a dynamic grid for sequences of at most `longest` tokens in
/// a batch whose longest sequence has `most`.
int dynamic_cp(const Grid& grid, std::int64_t longest, std::int64_t most);

/// Returns the packs of the microbatches of a trial: those of partition() where the grid is not
/// dynamic.
std::vector<MicrobatchPacks> plan_microbatches(const Problem& problem, const Grid& grid,
                                               std::int64_t sequences_per_unit);

/// Returns problem.spec.microbatches of them. Units of `sequences_per_unit` neighbours stay
/// together. An empty pack becomes a dummy with the sequences of the first one of its microbatch
/// that has any, an empty microbatch has the size and dummies of the first one that has any.
std::vector<MicrobatchPacks> dynamic_partition(const Problem& problem, const Grid& grid,
                                               std::int64_t sequences_per_unit);

}  // namespace lossgrid
