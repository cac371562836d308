// SPDX-License-Identifier: Apache-2.0
// The line that counts up on a terminal while a run goes on, with the time that is left. Trials and
// timings have very different lengths, so each kind is estimated from finished ones of its own:
// trials by their mean, timings by how long they took for each second of their budget, and by the
// budget itself before one is finished.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "harness/core/clock.h"

namespace lossgrid {

/// What a run is going to do.
struct PlannedSteps {
  std::size_t trials = 0;
  std::size_t timings = 0;
  double timing_budget_s = 0;  // of all timings together
};

/// "[3/40] about 2 min left: WHAT", cut at 79 bytes, between characters: a line that a terminal
/// wraps could not be taken back. Without a number of seconds, "[3/40] WHAT".
std::string format_progress(std::size_t done, std::size_t total, std::optional<double> seconds_left,
                            std::string_view what);

/// Where progress is shown: stderr, or nowhere (null) with `quiet` or when that is no terminal.
std::FILE* progress_stream(bool quiet);

class Progress {
 public:
  /// Writes to `out`, or nothing when that is null. The first step begins now.
  Progress(const PlannedSteps& planned, std::FILE* out, ClockNs clock = steady_clock_ns);
  /// Takes the line away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A step is finished, and the next one begins. `what`: one line that names it.
  void finish_trial(const std::string& what);
  void finish_timing(const std::string& what, double budget_s);

  /// Nothing while a trial is left and none is finished.
  std::optional<double> seconds_left() const;

 private:
  /// Steps of one kind: how many, how much work by plan in any unit, and how long it took.
  struct Kind {
    std::size_t steps = 0;
    std::size_t finished_steps = 0;
    double work = 0;
    double finished_work = 0;
    double finished_s = 0;

    std::optional<double> seconds_left(std::optional<double> expected_s_per_work) const;
  };

  void finish(Kind& kind, double work, const std::string& what);
  void show(const std::string& what) const;

  std::FILE* out_;
  ClockNs clock_;
  std::int64_t step_began_ns_;
  Kind trials_;
  Kind timings_;
};

}  // namespace lossgrid
