// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/early_end.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <unistd.h>

#include "harness/cli/text/output.h"
#include "harness/comm/launcher.h"
#include "harness/runner/run.h"

namespace lossgrid {
namespace {

using std::chrono::milliseconds;

// Time given to the step in progress. mpirun kills its processes a second after its SIGTERM.
constexpr milliseconds kPatienceAlone{1000};
constexpr milliseconds kPatienceOfLauncher{200};
// Time that other processes wait for the reporting process.
constexpr std::chrono::seconds kWaitForReport{10};

void announce(int signal) {
  if (::isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);  // removes a line of progress
  print_message(
      fmt::format("{}: the run ends here; once more ends it at once", signal_name(signal)));
}

}  // namespace

void add_interrupted(std::vector<TrialRecord> planned, const std::string& in_progress,
                     TrialList& trials) {
  const std::size_t reached = trials.size();
  if (reached < planned.size() && planned[reached].id == in_progress) {
    std::string reason = "interrupted while it ran";
    if (under_launcher() && noted_interrupt() == SIGTERM) {
      reason += " (launchers send SIGTERM too when another process has died)";
    }
    add_not_run({planned.begin(), planned.begin() + static_cast<std::ptrdiff_t>(reached) + 1},
                reason, trials);
  }
  add_not_run(std::move(planned), kInterrupted, trials);
}

EarlyEnd::EarlyEnd(std::function<void(ExitCode)> report) : report_(std::move(report)) {
  if (std::getenv(kSupervisedVariable) != nullptr) return;
  interrupts_.emplace();
  watcher_ = std::thread([this] { watch(); });
}

EarlyEnd::~EarlyEnd() {
  if (!interrupts_) return;
  interrupts_->wake();
  watcher_.join();
}

void EarlyEnd::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void EarlyEnd::stop_if_interrupted(std::unique_lock<std::mutex>& lock) {
  if (!interrupts_ || !report_ || noted_interrupt() == 0) return;
  stands_still_ = true;
  changed_.notify_all();
  changed_.wait(lock, [] { return false; });  // the watcher ends the process
}

void EarlyEnd::watch() {
  interrupts_->wait();
  const int signal = noted_interrupt();
  if (signal == 0) return;
  const ExitCode code = exit_code_of_interrupt(signal);
  std::unique_lock lock(mutex_);
  if (!report_) {
    if (changed_.wait_for(lock, kWaitForReport, [&] { return is_closed_; })) return;
    std::_Exit(static_cast<int>(code));
  }
  if (is_closed_) return;
  announce(signal);
  changed_.wait_for(lock, under_launcher() ? kPatienceOfLauncher : kPatienceAlone,
                    [&] { return stands_still_ || is_closed_; });
  if (is_closed_) return;
  std::signal(SIGPIPE, SIG_IGN);  // the interrupt may end the reader of a pipe as well
  ExitCode ended = code;
  try {
    report_(code);
  } catch (const std::exception& error) {
    print_message(error.what());
    ended = ExitCode::bad_input;
  }
  flush_output();
  std::_Exit(static_cast<int>(ended));
}

}  // namespace lossgrid
