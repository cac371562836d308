// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <omp.h>
#include <unistd.h>

#include "harness/cli/command.h"
#include "harness/external/plugin/plugin_worker.h"

namespace {

constexpr const char* kStartedAgain = "LOSSGRID_SHORT_TEAM_WAITS";

struct Variable {
  const char* name;
  const char* value;
};

/// Waits of idle threads in libgomp (turns) and in LLVM's libomp (milliseconds).
constexpr Variable kTeamWaits[] = {{"GOMP_SPINCOUNT", "1000"}, {"KMP_BLOCKTIME", "0"}};

void forget_team_waits() {
  ::unsetenv(kStartedAgain);
  for (const Variable& wait : kTeamWaits) ::unsetenv(wait.name);
}

/// Shortens the waits of OpenMP teams, unless the environment sets them. Idle threads spin before
/// they sleep, 300,000 turns in libgomp and 200 ms in libomp, longer than a trial of a suite takes.
/// If cores are shared with other work, spinning threads keep the threads from running for which
/// they wait. libgomp reads its environment only when it is loaded, so the program starts itself
/// again.
void shorten_team_waits(char** argv) {
  if (std::getenv(kStartedAgain) != nullptr) {  // child processes get the given environment
    static_cast<void>(omp_get_max_threads());   // libomp reads its environment at the first call
    forget_team_waits();
    return;
  }
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  for (const Variable& wait : kTeamWaits) {
    if (std::getenv(wait.name) != nullptr) return;
  }
  for (const Variable& wait : kTeamWaits) ::setenv(wait.name, wait.value, 1);
  ::setenv(kStartedAgain, "1", 1);
  std::error_code failed;
  // By the path of the executable, so that the name of the process stays.
  ::execv(std::filesystem::read_symlink("/proc/self/exe", failed).c_str(), argv);
  forget_team_waits();  // not started again: waits stay long
}

}  // namespace

int main(int argc, char** argv) {
  shorten_team_waits(argv);
  if (argc == 3 && std::string_view(argv[1]) == lossgrid::kPluginWorkerCommand) {
    return lossgrid::run_plugin_launcher(std::atoi(argv[2]));
  }
  return lossgrid::run_command_line(argc, argv);
}
