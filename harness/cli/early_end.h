// SPDX-License-Identifier: Apache-2.0
// `EarlyEnd`: the end of a run by an interrupt. Finished work is reported and the process ends with
// 128 + signal, whatever its other threads do. Ranks that compute or wait are left behind, so that
// nothing can keep the process.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/process/interrupts.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Environment variable, of any value, of a run that another process reports (--supervise): an
/// interrupt then kills it at once.
inline constexpr const char* kSupervisedVariable = "LOSSGRID_SUPERVISED";

/// The reason of trials that did not begin before the interrupt.
inline constexpr const char* kInterrupted = "interrupted";

/// Appends the trials of `planned` behind those of `trials`, not_run. The reason of the one with
/// the id `in_progress` is that the interrupt came while it ran.
void add_interrupted(std::vector<TrialRecord> planned, const std::string& in_progress,
                     std::vector<TrialRecord>& trials);

/// Watches for an interrupt while it lives. The thread of the run makes and closes it; where
/// processes run together each has one.
class EarlyEnd {
 public:
  /// `report` takes the exit code and reports the finished work, once, on a thread of its own while
  /// the run stands still between two steps or is within one. It is empty on a process that does
  /// not report: that one waits some seconds for the end of the process that does.
  explicit EarlyEnd(std::function<void(ExitCode)> report);
  ~EarlyEnd();
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;

  /// Calls `change`, which stores the result of a step for `report`. On a process that reports it
  /// does not return after an interrupt.
  template <typename F>
  void step(F&& change) {
    std::unique_lock lock(mutex_);
    change();
    stop_if_interrupted(lock);
  }

  /// Ends the watch: an interrupt has no effect any more.
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
