// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <unistd.h>

#include "harness/cli/command.h"

namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";
constexpr const char* kStartedAgain = "LOSSGRID_SHORT_TEAM_WAITS";

/// Shortens the waits of OpenMP teams, unless the environment has an opinion. Threads of libgomp
/// that have nothing to do spin for milliseconds before they sleep, longer than a trial of a suite
/// takes; where cores are shared with other work, they keep those from running for which they wait.
/// libgomp reads its environment only when it is loaded, so the program starts itself again.
void shorten_team_waits(char** argv) {
  if (std::getenv(kStartedAgain) != nullptr) {  // child processes get what was given
    ::unsetenv(kStartedAgain);
    ::unsetenv(kSpinCount);
    return;
  }
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv(kSpinCount) != nullptr) return;
  ::setenv(kSpinCount, "1000", 1);  // turns, about 10 us
  ::setenv(kStartedAgain, "1", 1);
  ::execv("/proc/self/exe", argv);
  ::unsetenv(kStartedAgain);  // not started: long waits
  ::unsetenv(kSpinCount);
}

}  // namespace

int main(int argc, char** argv) {
  shorten_team_waits(argv);
  return lossgrid::run_command_line(argc, argv);
}
