// SPDX-License-Identifier: Apache-2.0
// `Admission`: the decision of all processes of a job whether implementations run on a grid, for
// trials and timings: devices, what the implementations take, memory.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "harness/comm/process_grid.h"
#include "harness/core/error.h"
#include "harness/core/skip_reason.h"
#include "harness/device/backend.h"
#include "harness/planner/plan/memory_plan.h"
#include "harness/runner/job/ranks.h"

namespace lossgrid {

/// Failure of a rank before its checks, or of user code that decides what an implementation takes.
struct RankFailure {
  ErrorCode code = ErrorCode::internal;
  std::string text;  // one line
};

/// Reason why nothing runs: `skipped` or `failure` is set, or neither when it runs.
struct Refusal {
  std::optional<SkipReason> skipped = {};
  std::optional<RankFailure> failure = {};
};

class Admission {
 public:
  /// Keeps a reference to `ranks`.
  Admission(const Ranks& ranks, const Grid& grid, Backend backend)
      : ranks_(ranks), grid_(grid), backend_(backend) {}

  /// Returns `not_asked`, a reason to ask no implementation, which all processes have or none; else
  /// the device or library that one of them lacks. Collective without a reason.
  std::optional<SkipReason> closed(std::optional<SkipReason> not_asked) const;

  /// Returns the reason that `ask` finds for which nothing runs, or the lack of the memory that it
  /// sets for every rank. It is that of the first process that has one or fails, the same on all. A
  /// failure is a refusal of the implementation (thrown as unsupported), or user code that raised,
  /// died or did not come back; all other errors are thrown. Collective over the processes.
  Refusal refusal(const std::function<std::optional<SkipReason>(RanksMemory& need)>& ask) const;

 private:
  std::optional<SkipReason> own_reason(
      const std::function<std::optional<SkipReason>(RanksMemory& need)>& ask) const;

  const Ranks& ranks_;
  Grid grid_;
  Backend backend_;
};

}  // namespace lossgrid
