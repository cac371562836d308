// SPDX-License-Identifier: Apache-2.0
// A against B: launches, each a process of its own in which A and B are timed in turn, until the
// verdict is known. Of two builds a launch is one process of each, one after the other; there each
// time counts relative to what the machine reached in the same rounds (its ceiling), so a change of
// the ceilings themselves is not seen. What differs from process to process (where memory lies,
// what else runs) is part of what is measured. Starts no process: a launch is what it finds, a
// timing record.
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

/// Runs it. A process that dies or finds nothing is a record with that status and a reason.
using RunAbProcess = std::function<TimingRecord(const AbProcess&)>;

struct AbRequest {
  AbSide a;
  AbSide b;
  bool two_builds = false;          // A and B in processes of their own
  std::vector<std::string> phases;  // empty: all that both have
  double margin = 0.1;
  double alpha = kLookAlpha;
  std::uint64_t seed = 1;
};

/// Rounds at the begin of every process that count for nothing, beside those that the sampler warms
/// up with.
inline constexpr std::int64_t kAbWarmUpRounds = 2;

struct AbOutcome {
  std::vector<AbRecord> records;  // by phase; of the last look. Without case, grid and cache
  // Worse than above_ceiling, or skipped: nothing can be said, there are no records but a reason.
  TimingStatus status = TimingStatus::timed;
  std::string reason;
};

/// Called after every look.
using AbLook = std::function<void(const std::vector<AbRecord>& so_far)>;

/// Compares them, all phases in the same launches; one that is decided takes no more of them. The
/// place of A and B in a process, or of their processes, is random by the seed. Launch k has the
/// order seed (seed + k) mod 2^31.
AbOutcome compare_sides(const AbRequest& request, const RunAbProcess& run, const AbLook& look);

}  // namespace lossgrid
