// SPDX-License-Identifier: Apache-2.0
// The executable in the background: a test waits for its output, then sends it a signal.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

namespace lossgrid {

/// Polls until `is_so` returns true. Returns false after a minute, the longest wait in a test.
inline bool wait_until(const std::function<bool()>& is_so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// Returns the number of lines of the file `path` that contain `part`.
inline std::size_t lines_with(const std::string& path, const std::string& part) {
  std::istringstream text(read_all(path));
  std::size_t count = 0;
  for (std::string line; std::getline(text, line);) count += line.find(part) != std::string::npos;
  return count;
}

class BackgroundProcess {
 public:
  /// Starts `command` in a shell, in the source folder. `name` is the name of its output files.
  BackgroundProcess(const ScratchFolder& scratch, const std::string& name,
                    const std::string& command)
      : out_(scratch.file(name + ".out")), err_(scratch.file(name + ".err")) {
    const std::string line = "cd '" LOSSGRID_SOURCE_DIR "' && exec " + command + " >'" + out_ +
                             "' 2>'" + err_ + "' </dev/null";
    pid_ = ::fork();
    if (pid_ == 0) {
      for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
      ::execl("/bin/bash", "bash", "-c", line.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~BackgroundProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }

  /// Waits for the end of the process; the exit code is -1 if it does not end within a minute.
  ProcessResult wait() {
    ProcessResult result;
    int status = 0;
    if (!wait_until([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return result;
    pid_ = -1;
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    result.out = read_all(out_);
    result.err = read_all(err_);
    return result;
  }

 private:
  std::string out_;
  std::string err_;
  pid_t pid_ = -1;
};

}  // namespace lossgrid
