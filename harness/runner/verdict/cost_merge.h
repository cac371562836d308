// SPDX-License-Identifier: Apache-2.0
// Merges memory, communication and times of all ranks and packs, each beside its prediction, and
// compares their FLOPs and traffic with it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "harness/runner/rank/rank_trial.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Costs that are compared with their prediction, and their names in TrialRecord::cost_mismatches.
enum class ComparedCost { memory, communication, flops, traffic };
inline constexpr std::array kComparedCostNames =
    std::to_array<std::string_view>({"memory", "communication", "flops", "traffic"});

constexpr std::string_view name(ComparedCost cost) {
  return kComparedCostNames[static_cast<std::size_t>(cost)];
}

/// Adds peaks by rank and phase, of the microbatch with the largest; of a rank without packs, which
/// needs nothing, the peak of the whole trial. Returns the first that differs from its prediction
/// by more than 5 %, in one line; empty when there is none.
std::string merge_memory(const std::vector<RankResult>& ranks, TrialRecord& record);

/// Adds calls and payload by phase, group and operation, added up over microbatches, of the first
/// rank of the last stage or the first rank that differs from its prediction. Returns the first
/// difference; empty when there is none.
std::string merge_communication(const Grid& grid, const std::vector<RankResult>& ranks,
                                TrialRecord& record);

/// Returns the first difference between the counted FLOPs of matrix products of a rank in a phase
/// and the prediction, of which a rank does the share of its columns of the vocabulary; empty when
/// there is none.
std::string compare_flops(const Grid& grid, std::int64_t vocab,
                          const std::vector<RankResult>& ranks);

/// Returns the first rank and phase in which kernels read or write more of rows of the vocabulary
/// than predicted; empty when there is none. Masked rows make it less.
std::string compare_traffic(const std::vector<RankResult>& ranks);

/// Adds the time of the slowest rank by phase, added up over its microbatches; and the most work of
/// a rank, by prediction: operations of matrix products, and chunks.
void merge_times(const std::vector<RankResult>& ranks, TrialRecord& record);

}  // namespace lossgrid
