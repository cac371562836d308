// SPDX-License-Identifier: Apache-2.0
// A process that this one starts and owns, with all that it starts itself: they form a process
// group, which gets the signals and ends with the object. Reads nothing (stdin is /dev/null); what
// it says on stderr goes where this process's goes. One thread owns an object.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace lossgrid {

/// How a process ended.
struct ProcessEnd {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;      // 0 when it ended by itself

  /// "exit code 3", "signal 9 (SIGKILL)"; what shells and launchers say of a signal is named too:
  /// "exit code 137 (SIGKILL)".
  std::string text() const;
};

class ChildProcess {
 public:
  /// Starts `command`, looked up in PATH, with its standard output dropped and `variables`
  /// ("NAME=value") in its environment before those of this process. It is killed when this process
  /// dies. Throws bad_input that names the command and why it cannot be started.
  explicit ChildProcess(const std::vector<std::string>& command,
                        const std::vector<std::string>& variables = {});
  /// Kills the group unless it has ended.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// How it ended, if it does within `limit`.
  std::optional<ProcessEnd> wait_for(std::chrono::milliseconds limit);
  /// Ends the group: SIGTERM, and SIGKILL where that is not enough within `patience`.
  ProcessEnd stop(std::chrono::milliseconds patience);

 private:
  void signal_group(int signal) const;

  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

}  // namespace lossgrid
