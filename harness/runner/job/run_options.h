// SPDX-License-Identifier: Apache-2.0
// `RunOptions`: options of a run of trials or timings, beside its suites.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/comm/faults/fault.h"
#include "harness/planner/model/machine.h"
#include "harness/runner/job/finished_work.h"
#include "harness/runner/job/ranks.h"
#include "harness/runner/job/recording.h"

namespace lossgrid {

/// by_case: a case on all grids, then the next one. by_grid: all cases on the first grid of their
/// suite, then all on the second one.
enum class TrialOrder { by_case, by_grid };

struct RunOptions {
  TrialOrder order = TrialOrder::by_case;
  std::chrono::milliseconds deadline{std::chrono::seconds(300)};  // of a trial or timed iteration
  std::optional<Fault> fault;
  bool stop_at_failure = false;  // no trial behind the first bad one
  bool explains = false;         // failures, with trials of their own (explain/explainer.h)
  Ranks ranks;
  FinishedWork finished;                    // taken over instead of run
  std::shared_ptr<RunRecording> recording;  // null: nothing beside the report
  std::shared_ptr<const Machine> machine;   // that times are predicted for; null: none
  /// Called for every trial or timing that is about to run, with its id and the command line that
  /// runs it again (empty for a timing).
  std::function<void(const std::string& id, const std::string& reproduce)> begins =
      [](const std::string&, const std::string&) {};
};

/// Returns the fault that strikes the `number`-th trial or timing, from 1; nullopt for the others.
std::optional<Fault> fault_of(const RunOptions& options, std::int64_t number);

}  // namespace lossgrid
