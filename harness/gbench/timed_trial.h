// SPDX-License-Identifier: Apache-2.0
// TimedTrial: one case on one grid with one implementation, measured when a benchmark asks for it:
// verified once, which also measures memory, then timed once per repetition, all phases together.
// The first phase of a repetition causes the timing; later ones read it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/skip_reason.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/timing/timing_rank.h"
#include "reports/record/record.h"

namespace lossgrid {

/// State shared by all trials of a process.
struct TrialSession {
  ProblemCache problems;
  std::chrono::milliseconds deadline{std::chrono::seconds(300)};
  std::int64_t iterations = 20;  // samples of each phase
  ExitCode code = ExitCode::ok;  // the worst so far; skipped trials do not count
  bool must_end = false;         // nothing can be measured any more
};

/// Memory of a phase: the peak over ranks of all live bytes, inputs included, and the allocations
/// of the rank with the most.
struct PhaseUse {
  std::int64_t peak_bytes = 0;
  std::int64_t allocations = 0;
};

class TimedTrial {
 public:
  TimedTrial(CaseSpec spec, std::string implementation, const Grid& grid, TrialSession& session);

  const Grid& grid() const { return grid_; }

  /// Runs the trial unless that was done. Returns the reason for which nothing is timed, "skipped:
  /// ..." or the failure; nullopt if it passed. Throws bad_input for a grid that the problem does
  /// not fit.
  std::optional<SkipReason> not_timed();

  /// Returns the record of a repetition, counted from 0, with exactly `iterations` samples of each
  /// phase, fewer if the deadline came first; null if a rank hangs. Requires a trial that passed.
  /// The record is valid until the next call with another repetition.
  const TimingRecord* timing(std::size_t repetition);

  /// Returns the memory that the trial measured; zeros if it did not pass.
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
