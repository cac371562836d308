// SPDX-License-Identifier: Apache-2.0
// Interrupts: SIGINT (Ctrl-C), SIGTERM and SIGHUP as something that a run reads and ends by, with
// its results, instead of dying of it. A process has one NotedInterrupts at a time.
#pragma once

#include <string>
#include <vector>

#include "harness/core/error.h"

namespace lossgrid {

/// The first signal that was noted, 0 for none.
int noted_interrupt();

/// "SIGINT"
std::string signal_name(int signal);

/// 128 + `signal`, as shells have it.
ExitCode exit_code_of_interrupt(int signal);

/// Notes signals while it lives. The second of a kind ends the process at once, by that signal. A
/// signal that the process was started to ignore (nohup) stays ignored.
class NotedInterrupts {
 public:
  NotedInterrupts();
  ~NotedInterrupts();
  NotedInterrupts(const NotedInterrupts&) = delete;
  NotedInterrupts& operator=(const NotedInterrupts&) = delete;

  /// Blocks until a signal is noted, or until wake(). One thread waits.
  void wait();
  void wake();

 private:
  std::vector<int> noted_;
};

}  // namespace lossgrid
