// SPDX-License-Identifier: Apache-2.0
// Limit of the ranks of a grid: --max-ranks or, without the flag, the number of threads that memory
// allows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/core/skip_reason.h"
#include "harness/problem/case/suite.h"

namespace lossgrid {

/// Largest number of ranks with any amount of memory, and largest --max-ranks.
inline constexpr int kMostRanks = 4096;
/// Default limit for ranks that are processes, because the memory of other machines is unknown
/// here.
inline constexpr int kMostProcesses = 64;

/// Returns the bytes that `ranks` ranks need as threads of one process in addition to the tensors
/// of a trial: stacks, communicators, results.
std::int64_t thread_ranks_bytes(std::int64_t ranks);

/// Returns the reason why the ranks of `grid` cannot be threads of a process with `available_bytes`
/// of memory; nullopt if they can.
std::optional<SkipReason> thread_shortage(const Grid& grid, std::int64_t available_bytes);

/// Returns the limit for require_runnable: `max_ranks`, or the default if it is 0. Throws bad_input
/// for a grid that exceeds the default because memory is short.
int rank_limit(const std::vector<Suite>& suites, int max_ranks, bool ranks_are_threads = true);

}  // namespace lossgrid
