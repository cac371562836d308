// SPDX-License-Identifier: Apache-2.0
// Interrupts: SIGINT (Ctrl-C), SIGTERM and SIGHUP as a flag that a run polls, so that it ends with
// its results. A process has one NotedInterrupts at a time.
#pragma once

#include <string>
#include <vector>

#include "harness/core/error.h"

namespace lossgrid {

/// Returns the first signal that was noted, 0 for none.
int noted_interrupt();

/// Returns "SIGINT" and the like.
std::string signal_name(int signal);

/// Returns 128 + `signal`, the convention of shells.
ExitCode exit_code_of_interrupt(int signal);

/// Scope in which signals are noted. The second signal of a kind ends the process at once, by that
/// signal. A signal that the process was started to ignore (nohup) stays ignored.
class NotedInterrupts {
 public:
  NotedInterrupts();
  ~NotedInterrupts();
  NotedInterrupts(const NotedInterrupts&) = delete;
  NotedInterrupts& operator=(const NotedInterrupts&) = delete;

  /// Blocks until a signal is noted or wake() is called. One thread waits.
  void wait();
  void wake();

 private:
  std::vector<int> noted_;
};

}  // namespace lossgrid
