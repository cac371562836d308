// SPDX-License-Identifier: Apache-2.0
// The end of a run by an interrupt: what is done is reported and the process leaves with 128 +
// signal, whatever its other threads are at. Ranks that compute or wait are left behind, so nothing
// can keep the process.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/interrupts.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Set, to anything, in the environment of a run that another process reports (--supervise): it
/// dies of an interrupt as it stands.
inline constexpr const char* kSupervisedVariable = "LOSSGRID_SUPERVISED";

/// The reason of trials that such a run did not come to.
inline constexpr const char* kInterrupted = "interrupted";

/// Adds the trials of `planned` behind those of `trials`, not_run. The one with the id
/// `in_progress` tells that the interrupt came while it ran.
void add_interrupted(std::vector<TrialRecord> planned, const std::string& in_progress,
                     std::vector<TrialRecord>& trials);

/// Watches for an interrupt while it lives. The thread of the run makes and closes it; where
/// processes run together each has one.
class EarlyEnd {
 public:
  /// `report` gets the exit code and reports what is done, once, on a thread of its own while the
  /// run stands still between two steps or is within one. Empty on a process that does not report:
  /// that leaves the end to the one that does, for some seconds.
  explicit EarlyEnd(std::function<void(ExitCode)> report);
  ~EarlyEnd();
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;

  /// Calls `change`, which changes what `report` reads: the result of a step. On a process that
  /// reports it does not return once an interrupt has come.
  template <typename F>
  void step(F&& change) {
    std::unique_lock lock(mutex_);
    change();
    stop_if_interrupted(lock);
  }

  /// The run has come to its end: an interrupt has no effect any more.
  void close();

 private:
  void watch();
  void stop_if_interrupted(std::unique_lock<std::mutex>& lock);

  const std::function<void(ExitCode)> report_;
  std::optional<NotedInterrupts> interrupts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stands_still_ = false;
  bool is_closed_ = false;
  std::thread watcher_;
};

}  // namespace lossgrid
