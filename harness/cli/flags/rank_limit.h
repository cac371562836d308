// SPDX-License-Identifier: Apache-2.0
// Limit of the ranks of a grid: that of --max-ranks or, without it, what memory allows for ranks
// that are threads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/core/skip_reason.h"
#include "harness/problem/case/suite.h"

namespace lossgrid {

/// The largest number of ranks whatever the memory, and the largest --max-ranks.
inline constexpr int kMostRanks = 4096;
/// The default limit of ranks that are processes: memory of other machines is not known here.
inline constexpr int kMostProcesses = 64;

/// Returns the bytes that `ranks` ranks take as threads of one process, beside the tensors of a
/// trial: stacks, communicators, results.
std::int64_t thread_ranks_bytes(std::int64_t ranks);

/// Returns the reason for which the ranks of `grid` cannot be threads of a process that may take
/// `available_bytes`; nullopt if they can.
std::optional<SkipReason> thread_shortage(const Grid& grid, std::int64_t available_bytes);

/// Returns the limit for require_runnable: `max_ranks`, or for 0 the default. Throws bad_input for
/// a grid that exceeds the default for want of memory.
int rank_limit(const std::vector<Suite>& suites, int max_ranks, bool ranks_are_threads = true);

}  // namespace lossgrid
