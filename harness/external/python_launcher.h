// SPDX-License-Identifier: Apache-2.0
// The process that has imported the user's files and forks workers (python/PROTOCOL.md, Launcher).
// It ends, with all of its workers, when this process does. Any thread may call; one request is
// answered at a time.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/core/child_process.h"
#include "harness/external/declaration.h"
#include "harness/external/declared_cost.h"
#include "harness/external/message_channel.h"

namespace lossgrid {

class PythonLauncher {
 public:
  /// Starts `python` (a program in PATH or a path) with the package of lossgrid in reach. Throws
  /// bad_input where it cannot be started.
  explicit PythonLauncher(std::string python);

  /// Imports `files`. Throws bad_input with one line that names the file and what is wrong.
  std::vector<ExternalDeclaration> load(const std::vector<std::string>& files);

  /// Why `implementation` does not take a problem; empty when it does. Throws rank_failed where the
  /// user's function fails.
  std::string why_unsupported(const std::string& implementation, const nlohmann::json& options,
                              const nlohmann::json& problem);

  /// In how many chunks of rows `implementation` makes the gradient of the weight. Throws
  /// rank_failed where the user's function fails.
  std::int64_t chunks(const std::string& implementation, const nlohmann::json& options,
                      const nlohmann::json& problem);

  /// What `implementation` should need by its user's model on the rank that `problem` names. Throws
  /// as why_unsupported.
  DeclaredCost cost(const std::string& implementation, const nlohmann::json& options,
                    const nlohmann::json& problem);

  /// Forks a worker whose messages go over `socket` and whose output goes to `output`.
  pid_t fork_worker(int rank, int size, int socket, int output);

  /// How a worker ended: it has ended, or is about to.
  ProcessEnd wait_for(pid_t worker);

 private:
  PythonLauncher(std::string python, std::pair<Descriptor, Descriptor> sockets);
  /// The answer, `"ok"` being true or false.
  nlohmann::json ask(const nlohmann::json& request, std::initializer_list<int> descriptors = {});

  std::mutex mutex_;
  std::string python_;
  ChildProcess process_;
  MessageChannel channel_;
};

/// Folder with the Python package: beside or above the executable, or where it was installed.
/// Throws bad_input when there is none.
std::string python_package_folder();

}  // namespace lossgrid
