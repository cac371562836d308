// SPDX-License-Identifier: Apache-2.0
// Runs of other programs on exported files: independent readers.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <sys/wait.h>

namespace lossgrid {

struct ShellOutcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr
};

inline ShellOutcome run_shell(const std::string& command) {
  std::FILE* pipe = ::popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) return {};
  ShellOutcome outcome;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.output += buffer.data();
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// True if `command` ends with 0 on this machine. A test skips itself without its program.
inline bool shell_has(const std::string& command) {
  return run_shell(command).exit_code == 0;
}

}  // namespace lossgrid
