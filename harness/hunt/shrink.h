// SPDX-License-Identifier: Apache-2.0
// `Shrinker`: makes a failing trial smaller for as long as the same check fails.
#pragma once

#include <cstdint>

#include "harness/hunt/failing_trial.h"
#include "harness/runner/job/run_options.h"
#include "reports/record/trial_record.h"

namespace lossgrid {

/// The smallest trial that was found, and its record where it ran and this process reports.
struct Shrunk {
  FailingTrial trial;
  TrialRecord record;
  bool must_end = false;  // a rank hangs: no further trial may run
};

class Shrinker {
 public:
  /// Tries for about `seconds` for each trial.
  Shrinker(RunOptions options, Backend backend, double seconds)
      : options_(std::move(options)), backend_(backend), seconds_(seconds) {}

  /// Returns the smallest trial; the given one where nothing smaller fails. Collective: all
  /// processes of a job call it.
  Shrunk shrink(const FailingTrial& trial) const;

 private:
  /// Runs the trial; true on all processes if its check fails. Sets the record.
  bool fails(const FailingTrial& trial, Shrunk& found, bool explains) const;

  RunOptions options_;
  Backend backend_;
  double seconds_;
};

}  // namespace lossgrid
