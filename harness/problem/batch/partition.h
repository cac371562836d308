// SPDX-License-Identifier: Apache-2.0
// Split of a global batch over dp ranks and microbatches. Every sequence goes to one (dp rank,
// microbatch); denominators stay those of the global batch, so that losses, gradients and metrics
// add up to those of the whole for every split.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/problem/batch/problem.h"

namespace lossgrid {

/// Sequences of one microbatch of one dp rank.
struct MicrobatchPlan {
  std::vector<std::int64_t> sequences;  // ascending
  bool dummy = false;      // true for copies of sequences that another microbatch trains on
  std::int64_t slots = 0;  // largest number of sequences in a microbatch of the rank
  int index = 0;           // index among the microbatches of the rank
};

/// Returns plans [dp][problem.spec.microbatches]. Units of `sequences_per_unit` neighbours (pairs
/// of a preference batch) stay together and go to a random slot, so counts are unequal and slots
/// may stay empty. An empty slot of a rank that has sequences becomes a dummy with the sequences of
/// the rank's first microbatch that has any; a rank without sequences has empty packs. dp = 1 with
/// one microbatch is the whole batch in order.
std::vector<std::vector<MicrobatchPlan>> partition(const Problem& problem, int dp,
                                                   std::int64_t sequences_per_unit);

/// Returns the problem with every pack of the plans as a group, also one without sequences, for a
/// loss that depends on the partition.
std::shared_ptr<const Problem> grouped_by_pack(
    const Problem& problem, const std::vector<std::vector<MicrobatchPlan>>& plans);

/// Returns the sequences of `plan` as a problem, with the denominators of the whole and, for a
/// dummy, all sample masks 0. Its `microbatch` holds `of_count` packs, `dp` and the plan's slots.
Problem take_part(const Problem& problem, const MicrobatchPlan& plan, int of_count, int dp);

}  // namespace lossgrid
