// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/rank_limit.h"

#include "harness/core/error.h"
#include "harness/core/process/available_memory.h"
#include "harness/core/text.h"

namespace lossgrid {

std::int64_t thread_ranks_bytes(std::int64_t ranks) {
  // Rounded up from peaks of runs with all implementations on 256, 1024 and 4096 ranks, minus the
  // peak of one rank: 151, 126 and 118 KiB per rank.
  constexpr std::int64_t kBytes = 160 * 1024;
  return ranks * kBytes;
}

std::optional<SkipReason> thread_shortage(const Grid& grid, std::int64_t available_bytes) {
  const std::int64_t need_bytes = thread_ranks_bytes(grid.ranks());
  if (need_bytes <= available_bytes) return std::nullopt;
  return SkipReason{fmt::format(
      "grid {}: not enough memory for {} ranks as threads: needs {} ({} bytes), this machine has "
      "{} ({} bytes); --max-ranks of run, bench and ab sets another limit",
      format_grid(grid), grid.ranks(), format_bytes(need_bytes), need_bytes,
      format_bytes(available_bytes), available_bytes)};
}

int rank_limit(const std::vector<Suite>& suites, int max_ranks, bool ranks_are_threads) {
  if (max_ranks > 0) return max_ranks;
  if (!ranks_are_threads) return kMostProcesses;
  const std::int64_t available_bytes = available_memory_bytes();
  for (const Suite& suite : suites) {
    for (const Grid& grid : suite.grids) {
      if (grid.ranks() > kMostRanks) continue;  // refused by the limit itself
      if (const auto shortage = thread_shortage(grid, available_bytes)) {
        throw_bad_input("{}", shortage->text);
      }
    }
  }
  return kMostRanks;
}

}  // namespace lossgrid
