// SPDX-License-Identifier: Apache-2.0
// Comparison of A with B by launches, until the verdict is known. A launch is one process that
// times A and B in turn. With two builds it is one process of each, one after the other; each time
// then counts relative to the ceiling of the machine in the same rounds, so a change of the
// ceilings themselves is not seen. Differences between processes (places of memory, load of the
// machine) are part of the measurement. Starts no process itself: a launch is a function that
// returns a timing record.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reports/record/ab_record.h"
#include "reports/record/timing_record.h"

namespace lossgrid {

enum class Build { head, base };

struct AbSide {
  std::string implementation;
  Build build = Build::head;

  bool operator==(const AbSide&) const = default;
};

/// One process that times implementations in turn.
struct AbProcess {
  Build build = Build::head;
  std::vector<std::string> implementations;
  std::uint64_t order_seed = 0;  // below 2^31
};

/// Runs a process. Returns a record with status and reason for one that dies or times nothing.
using RunAbProcess = std::function<TimingRecord(const AbProcess&)>;

struct AbRequest {
  AbSide a;
  AbSide b;
  bool two_builds = false;          // A and B in processes of their own
  std::vector<std::string> phases;  // empty: all phases that both have
  double margin = 0.1;
  double alpha = kLookAlpha;
  std::uint64_t seed = 1;
};

/// Rounds at the beginning of every process that do not count, beside the warm-up of the sampler.
inline constexpr std::int64_t kAbWarmUpRounds = 2;

struct AbOutcome {
  std::vector<AbRecord> records;  // by phase, of the last interim analysis; no case, grid, cache
  // If `skipped` or worse than `above_ceiling`: no verdict; `records` is empty and `reason` is set.
  TimingStatus status = TimingStatus::timed;
  std::string reason;
};

/// Called after every interim analysis.
using AbInterimAnalysis = std::function<void(const std::vector<AbRecord>& so_far)>;

/// Compares A and B in all phases by the same launches; a phase that is decided takes no more of
/// them. The order of A and B in a process, or of their processes, is random by the seed. Launch k
/// has the order seed (seed + k) mod 2^31.
AbOutcome compare_sides(const AbRequest& request, const RunAbProcess& run,
                        const AbInterimAnalysis& analysed);

}  // namespace lossgrid
