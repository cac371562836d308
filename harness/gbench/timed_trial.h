// SPDX-License-Identifier: Apache-2.0
// One case on one grid with one implementation, measured as its benchmarks ask for it: verified
// once, which also measures memory, then timed once for each repetition, all phases together. A
// phase that comes later reads what the first one of the repetition left.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/runner/problem_cache.h"
#include "harness/runner/timing/timing_rank.h"
#include "reports/record/record.h"

namespace lossgrid {

/// What all trials of a process share.
struct TrialSession {
  ProblemCache problems;
  std::chrono::milliseconds deadline{std::chrono::seconds(300)};
  std::int64_t iterations = 20;  // samples of each phase
  ExitCode code = ExitCode::ok;  // the worst so far; skipped trials do not count
  bool must_end = false;         // nothing can be measured any more
};

/// Peak over ranks of everything live, inputs included; allocations of the rank with the most.
struct PhaseUse {
  std::int64_t peak_bytes = 0;
  std::int64_t allocations = 0;
};

class TimedTrial {
 public:
  TimedTrial(CaseSpec spec, std::string implementation, const Grid& grid, TrialSession& session);

  const Grid& grid() const { return grid_; }

  /// Runs the trial unless that was done. Returns why nothing is timed: "skipped: ...", what is
  /// wrong; empty when it passed. Throws bad_input for a grid that the problem does not fit.
  std::string why_not_timed();

  /// The record of a repetition, 0 at first, with exactly `iterations` samples of each phase unless
  /// that took longer than the deadline. Only after a trial that passed. Nothing: a rank hangs.
  /// Valid until another repetition is asked for.
  const TimingRecord* timing(std::size_t repetition);

  /// What the trial measured; zeros when it did not pass.
  PhaseUse memory(Phase phase) const;

 private:
  CaseSpec spec_;
  std::string implementation_;
  Grid grid_;
  TrialSession& session_;
  std::optional<TrialRecord> verified_;
  std::vector<TimingRecord> timings_;
};

}  // namespace lossgrid
