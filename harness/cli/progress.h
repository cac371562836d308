// SPDX-License-Identifier: Apache-2.0
// The progress of a run with the time that is left: on a terminal one line that counts up; in a log
// a line of its own now and then, after the first that names what is going to run. Trials and
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

/// "run: 1200 of 3840 trials, 3 of 12 timings, 2 failed, about 40 s left": what there are none of
/// is left out.
struct ProgressCounts {
  std::size_t trials_done = 0;
  std::size_t trials = 0;
  std::size_t timings_done = 0;
  std::size_t timings = 0;
  std::size_t failed = 0;
};
std::string format_log_line(std::string_view command, const ProgressCounts& counts,
                            std::optional<double> seconds_left);

/// Where progress is shown, and as what.
struct ProgressStream {
  std::FILE* out = nullptr;  // null: nowhere
  bool is_terminal = false;
};

/// stderr, or nowhere with `quiet`.
ProgressStream progress_stream(bool quiet);

class Progress {
 public:
  /// The first step begins now. `command` begins the lines of a log.
  Progress(std::string command, const PlannedSteps& planned, ProgressStream stream,
           ClockNs clock = steady_clock_ns);
  /// Takes the line of a terminal away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A step is finished, and the next one begins. `what`: one line that names it.
  void finish_trial(const std::string& what, bool failed);
  void finish_timing(const std::string& what, double budget_s, bool failed);

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
