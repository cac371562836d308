// SPDX-License-Identifier: Apache-2.0
// `Progress`: the progress of a run with the remaining time. On a terminal it is one line that
// counts up; in a log it is a first line with the number of steps, and further lines from time to
// time. Trials and timings have very different lengths, so each kind is estimated from its own
// finished steps: trials by their mean time, timings by their time per second of budget, or by the
// budget itself before the first timing is finished.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "harness/core/clock.h"

namespace lossgrid {

/// Planned steps of a run.
struct PlannedSteps {
  std::size_t trials = 0;
  std::size_t timings = 0;
  double timing_budget_s = 0;  // sum over all timings
};

/// Returns "[3/40] about 2 min left: WHAT", or "[3/40] WHAT" without a number of seconds. The text
/// is cut to 79 bytes, between characters, because a line that a terminal wraps could not be
/// removed.
std::string format_progress(std::size_t done, std::size_t total, std::optional<double> seconds_left,
                            std::string_view what);

/// Numbers of a line in a log.
struct ProgressCounts {
  std::size_t trials_done = 0;
  std::size_t trials = 0;
  std::size_t timings_done = 0;
  std::size_t timings = 0;
  std::size_t failed = 0;
};

/// Returns "run: 1200 of 3840 trials, 3 of 12 timings, 2 failed, about 40 s left" without parts
/// whose count is 0.
std::string format_log_line(std::string_view command, const ProgressCounts& counts,
                            std::optional<double> seconds_left);

/// Stream for progress.
struct ProgressStream {
  std::FILE* out = nullptr;  // null: no output
  bool is_terminal = false;
};

/// Returns stderr; no stream if `quiet`.
ProgressStream progress_stream(bool quiet);

class Progress {
 public:
  /// Begins the first step. `command` begins the lines of a log.
  Progress(std::string command, const PlannedSteps& planned, ProgressStream stream,
           ClockNs clock = steady_clock_ns);
  /// Removes the line of a terminal.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Finishes a step and begins the next step. `what` is one line that names the step.
  void finish_trial(const std::string& what, bool failed);
  void finish_timing(const std::string& what, double budget_s, bool failed);

  /// Returns nullopt while trials remain and no trial is finished.
  std::optional<double> seconds_left() const;

 private:
  /// Steps of one kind: number, planned work in any unit, and time of the finished steps.
  struct Kind {
    std::size_t steps = 0;
    std::size_t finished_steps = 0;
    double work = 0;
    double finished_work = 0;
    double finished_s = 0;

    std::optional<double> seconds_left(std::optional<double> expected_s_per_work) const;
  };

  void finish(Kind& kind, double work, const std::string& what, bool failed);
  void show(const std::string& what);
  void show_on_terminal(const std::string& what) const;
  void log();

  std::string command_;
  ProgressStream stream_;
  ClockNs clock_;
  std::int64_t step_began_ns_;
  Kind trials_;
  Kind timings_;
  std::size_t failed_ = 0;
  std::int64_t logged_ns_;  // when the last line of a log was written
  std::size_t logged_steps_ = 0;
};

}  // namespace lossgrid
