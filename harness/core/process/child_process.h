// SPDX-License-Identifier: Apache-2.0
// ChildProcess: a process that this one starts and owns, with its descendants. They form a process
// group, which receives the signals and ends with the object. stdin is /dev/null; stderr is
// inherited from this process. One thread owns an object.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace lossgrid {

/// Exit of a process.
struct ProcessEnd {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;      // 0 when it ended by itself

  /// Returns "exit code 3" or "signal 9 (SIGKILL)"; "exit code 137 (SIGKILL)" for codes by which
  /// shells and launchers report a signal.
  std::string text() const;
};

enum class ChildOutput { dropped, inherited };

class ChildProcess {
 public:
  /// Starts `command`, looked up in PATH, with its standard output as `output` has it and
  /// `variables` ("NAME=value") in its environment, before those of this process. The process is
  /// killed if this one dies. Throws bad_input with the command and the reason if it cannot be
  /// started.
  explicit ChildProcess(const std::vector<std::string>& command,
                        const std::vector<std::string>& variables = {},
                        ChildOutput output = ChildOutput::dropped);
  /// Kills the group unless it has ended.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits up to `limit`. Returns nullopt if the process still runs then.
  std::optional<ProcessEnd> wait_for(std::chrono::milliseconds limit);
  /// Sends `signal` to the group.
  void signal_group(int signal) const;
  /// Ends the group by SIGTERM, and by SIGKILL after `patience`.
  ProcessEnd stop(std::chrono::milliseconds patience);

 private:
  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

}  // namespace lossgrid
