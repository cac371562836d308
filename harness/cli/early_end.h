// SPDX-License-Identifier: Apache-2.0
// `EarlyEnd`: the end of a run by an interrupt. Finished work is reported and the process ends with
// 128 + signal, whatever its other threads do. It does not wait for ranks that compute or wait, so
// that nothing can hold it up.
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

/// Reason of trials that did not begin before the interrupt.
inline constexpr const char* kInterrupted = "interrupted";

/// Appends to `trials` the further trials of `planned`, with status not_run. The reason of the
/// trial with the id `in_progress` is that the interrupt came while it ran.
void add_interrupted(std::vector<TrialRecord> planned, const std::string& in_progress,
                     TrialList& trials);

/// Watch for an interrupt during the life of the object. The thread of the run makes and closes it;
/// of several processes each has its own.
class EarlyEnd {
 public:
  /// `report` takes the exit code and reports the finished work. It is called once, on its own
  /// thread, while the run is stopped between two steps or is inside of a step. On a process that
  /// does not report it is empty: that process waits some seconds for the reporting process to end.
  explicit EarlyEnd(std::function<void(ExitCode)> report);
  ~EarlyEnd();
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;

  /// Calls `change`, which stores the result of a step for `report`. After an interrupt it does not
  /// return on the reporting process.
  template <typename F>
  void step(F&& change) {
    std::unique_lock lock(mutex_);
    change();
    stop_if_interrupted(lock);
  }

  /// Ends the watch: later interrupts have no effect.
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
