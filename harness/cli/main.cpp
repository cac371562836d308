// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include "harness/cli/command.h"
#include "harness/external/plugin/plugin_worker.h"

namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";
constexpr const char* kStartedAgain = "LOSSGRID_SHORT_TEAM_WAITS";

/// Shortens the waits of OpenMP teams, unless the environment has an opinion. Threads of libgomp
/// that have nothing to do spin 300,000 turns before they sleep, longer than a trial of a suite
/// takes; where cores are shared with other work, they keep those from running for which they wait.
/// libgomp reads its environment only when it is loaded, so the program starts itself again.
void shorten_team_waits(char** argv) {
  if (std::getenv(kStartedAgain) != nullptr) {  // child processes get what was given
    ::unsetenv(kStartedAgain);
    ::unsetenv(kSpinCount);
    return;
  }
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv(kSpinCount) != nullptr) return;
  ::setenv(kSpinCount, "1000", 1);  // turns
  ::setenv(kStartedAgain, "1", 1);
  std::error_code failed;
  // By its own path: the name of the process stays.
  ::execv(std::filesystem::read_symlink("/proc/self/exe", failed).c_str(), argv);
  ::unsetenv(kStartedAgain);  // not started: long waits
  ::unsetenv(kSpinCount);
}

}  // namespace

int main(int argc, char** argv) {
  shorten_team_waits(argv);
  if (argc == 3 && std::string_view(argv[1]) == lossgrid::kPluginWorkerCommand) {
    return lossgrid::run_plugin_launcher(std::atoi(argv[2]));
  }
  return lossgrid::run_command_line(argc, argv);
}
