// SPDX-License-Identifier: Apache-2.0
// A hunt: draws legal cases, grids and implementations from a seed, judges every trial, makes
// failing trials smaller and puts them together by cause.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/device/backend.h"
#include "harness/hunt/case_draw.h"
#include "harness/runner/job/run_options.h"
#include "reports/record/hunt_record.h"
#include "reports/record/trial_record.h"

namespace lossgrid {

struct HuntOptions {
  std::uint64_t seed = 1;
  std::optional<double> seconds;      // until then a case begins
  std::optional<std::int64_t> cases;  // at least one of the two is set
  bool until_failure = false;
  double shrink_seconds = 5;                 // for each cause
  std::vector<std::string> implementations;  // as on the command line; empty: all real ones
  Backend backend = Backend::cpu;
  DrawLimits limits;
  RunOptions run;
};

/// Numbers of a hunt that goes on.
struct HuntProgress {
  std::int64_t cases = 0;
  std::int64_t trials = 0;
  std::int64_t bad = 0;
  bool is_shrinking = false;
};

struct HuntOutcome {
  HuntRecord record;
  std::vector<TrialRecord> bad_trials;  // the smallest one of each cause
  bool must_end = false;                // a rank hangs: report and leave at once
};

class Hunt {
 public:
  /// `progress` is called behind every case and before a failing trial is made smaller. Throws
  /// bad_input for an unknown implementation or objective.
  Hunt(HuntOptions options, std::function<void(const HuntProgress&)> progress);
  ~Hunt();
  Hunt(const Hunt&) = delete;
  Hunt& operator=(const Hunt&) = delete;

  /// Draws a case and runs its trials; false if the hunt is over. Every process of a job calls it.
  /// Throws bad_input where nothing that can be drawn is supported.
  bool next();

  /// Returns what was found so far. `end`: the reason of a hunt that is not over.
  HuntOutcome outcome(const std::string& end = "") const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lossgrid
