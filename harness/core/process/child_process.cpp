// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/child_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/core/error.h"
#include "harness/core/process/interrupts.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kShellBase = 128;  // base of exit codes that stand for signals

[[noreturn]] void throw_not_started(const std::string& command, int error) {
  throw_bad_input("cannot start '{}': {}", command, std::generic_category().message(error));
}

/// Runs the command in the child and never returns. A failure is sent to the parent as an errno.
[[noreturn]] void become(char* const* arguments, char* const* environment, ChildOutput output,
                         int failure_pipe) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDWR);
  const bool drops = output == ChildOutput::dropped;
  if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
      (!drops || dup2(nothing, STDOUT_FILENO) >= 0)) {
    execvpe(arguments[0], arguments, environment);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t sent = write(failure_pipe, &error, sizeof(error));
  _exit(127);
}

/// Returns `texts` as the null-terminated array of exec. `texts` must outlive the result.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  return pointers;
}

}  // namespace

std::string ProcessEnd::text() const {
  if (signal != 0) return fmt::format("signal {} ({})", signal, signal_name(signal));
  const bool of_a_signal = exit_code > kShellBase && exit_code < kShellBase + NSIG;
  if (!of_a_signal) return fmt::format("exit code {}", exit_code);
  return fmt::format("exit code {} ({})", exit_code, signal_name(exit_code - kShellBase));
}

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::vector<std::string>& variables, ChildOutput output) {
  if (command.empty() || command[0].empty()) throw_bad_input("no command to start");
  std::vector<char*> arguments = pointers_to(command);
  arguments.push_back(nullptr);
  // The first of two variables with the same name counts.
  std::vector<char*> environment = pointers_to(variables);
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.push_back(*variable);
  environment.push_back(nullptr);
  std::array<int, 2> failure{};  // closed by a successful exec
  if (pipe2(failure.data(), O_CLOEXEC) != 0) throw_not_started(command[0], errno);
  pid_ = fork();
  const int fork_error = errno;
  if (pid_ == 0) become(arguments.data(), environment.data(), output, failure[1]);
  close(failure[1]);
  int error = pid_ < 0 ? fork_error : 0;
  if (pid_ > 0) {
    setpgid(pid_, pid_);  // in both parent and child, because either may run first
    if (read(failure[0], &error, sizeof(error)) > 0) waitpid(pid_, nullptr, 0);
  }
  close(failure[0]);
  if (error != 0) throw_not_started(command[0], error);
}

ChildProcess::~ChildProcess() {
  if (!end_) stop(milliseconds(0));
}

std::optional<ProcessEnd> ChildProcess::wait_for(milliseconds limit) {
  constexpr milliseconds kPause{10};
  const steady_clock::time_point end = steady_clock::now() + limit;
  while (!end_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      end_ = WIFSIGNALED(status) ? ProcessEnd{-1, WTERMSIG(status)}
                                 : ProcessEnd{WEXITSTATUS(status), 0};
      signal_group(SIGKILL);  // its remaining descendants
      break;
    }
    if (steady_clock::now() >= end) break;
    std::this_thread::sleep_for(kPause);
  }
  return end_;
}

ProcessEnd ChildProcess::stop(milliseconds patience) {
  if (!end_) signal_group(SIGTERM);
  if (!wait_for(patience)) signal_group(SIGKILL);
  while (!wait_for(milliseconds(1000))) {
  }
  return *end_;
}

void ChildProcess::signal_group(int signal) const {
  kill(-pid_, signal);
}

}  // namespace lossgrid
