// SPDX-License-Identifier: Apache-2.0
#include "harness/core/process/interrupts.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <semaphore.h>

namespace lossgrid {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");
sem_t arrived;

void note(int signal) {
  const int error = errno;
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  sem_post(&arrived);
  errno = error;
}

}  // namespace

int noted_interrupt() {
  return first_signal;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "unknown" : std::string("SIG") + name;
}

ExitCode exit_code_of_interrupt(int signal) {
  constexpr int kShellBase = 128;
  return static_cast<ExitCode>(kShellBase + signal);
}

NotedInterrupts::NotedInterrupts() {
  first_signal = 0;
  sem_init(&arrived, 0, 0);
  for (const int signal : kSignals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = note;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    sigaction(signal, &action, nullptr);
    noted_.push_back(signal);
  }
}

NotedInterrupts::~NotedInterrupts() {
  for (const int signal : noted_) std::signal(signal, SIG_DFL);
}

void NotedInterrupts::wait() {
  while (sem_wait(&arrived) != 0 && errno == EINTR) {
  }
}

void NotedInterrupts::wake() {
  sem_post(&arrived);
}

}  // namespace lossgrid
