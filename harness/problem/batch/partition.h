// SPDX-License-Identifier: Apache-2.0
// A global batch split over dp ranks and microbatches. Every sequence goes to one (dp rank,
// microbatch); denominators stay those of the global batch, so that losses, gradients and metrics
// add up to those of the whole whatever the split.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// The sequences of one microbatch of one dp rank, ascending.
struct MicrobatchPlan {
  std::vector<std::int64_t> sequences;
  bool dummy = false;      // copies of sequences that another microbatch of the rank trains on
  std::int64_t slots = 0;  // the most sequences that a microbatch of the rank has
  int index = 0;           // among the microbatches of the rank
};

/// [dp][problem.spec.microbatches]. Units of `sequences_per_unit` neighbours (pairs of a preference
/// batch) stay together and go to a random slot, so counts are unequal and slots may stay empty. An
/// empty slot of a rank that has sequences becomes a dummy made of those of its first microbatch
/// that has any; a rank without sequences has empty packs. dp = 1 with one microbatch is the whole
/// batch in order.
std::vector<std::vector<MicrobatchPlan>> partition(const Problem& problem, int dp,
                                                   std::int64_t sequences_per_unit);

/// The part of `problem` that `plan` says, with the denominators of the whole; of a dummy with all
/// sample masks 0. Its `microbatch` says count and dp of `of_count` and `dp`, and the plan's slots.
Problem take_part(const Problem& problem, const MicrobatchPlan& plan, int of_count, int dp);

}  // namespace lossgrid
