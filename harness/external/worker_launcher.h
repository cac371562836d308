// SPDX-License-Identifier: Apache-2.0
// `WorkerLauncher`: the process that has loaded the user's files and forks workers
// (python/PROTOCOL.md, Launcher): an interpreter of Python, or this program for shared libraries.
// The launcher and all of its workers end when this process ends. Any thread may call; one request
// is answered at a time. If a function of the user hangs in the launcher, or ends it, the launcher
// is started again.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/core/process/child_process.h"
#include "harness/core/skip_reason.h"
#include "harness/external/declaration.h"
#include "harness/external/declared_cost.h"
#include "harness/external/message_channel.h"

namespace lossgrid {

/// Environment variable with the descriptor of the socket of a launcher that is there already
/// (harness/cli/warm_launchers.h). The first WorkerLauncher of Python takes it.
inline constexpr const char* kInheritedLauncher = "LOSSGRID_LAUNCHER";

/// Program of a launcher. The descriptor of its socket is appended as one more word.
struct WorkerProgram {
  std::vector<std::string> words;
  std::vector<std::string> environment;  // "NAME=value"
  bool host_makes_calls = false;         // hosts make the collectives of its workers

  /// Returns the words joined by blanks.
  std::string text() const;
};

class WorkerLauncher {
 public:
  /// Starts `program`. `answer_time` is the deadline of the user's functions. Throws bad_input if
  /// the program cannot be started.
  WorkerLauncher(WorkerProgram program, std::chrono::milliseconds answer_time);

  /// Loads `files`. Throws bad_input with one line that names the file and the fault.
  std::vector<ExternalDeclaration> load(const std::vector<std::string>& files);

  /// Returns the reason why `implementation` does not support a problem; nullopt if it does. Throws
  /// the errors of ask_function.
  std::optional<SkipReason> unsupported(const std::string& implementation,
                                        const nlohmann::json& options,
                                        const nlohmann::json& problem);

  /// Returns the number of chunks of rows in which `implementation` makes the gradient of the
  /// weight. Throws the errors of ask_function.
  std::int64_t chunks(const std::string& implementation, const nlohmann::json& options,
                      const nlohmann::json& problem);

  /// Returns the cost of `implementation` by its user's model on the rank that `problem` names.
  /// Throws the errors of ask_function, and rank_failed for a cost that breaks the protocol.
  DeclaredCost cost(const std::string& implementation, const nlohmann::json& options,
                    const nlohmann::json& problem);

  /// Forks a worker whose messages go over `socket` and whose output goes to `output`.
  pid_t fork_worker(int rank, int size, int socket, int output);

  /// Waits for the end of a worker that has ended or is about to end.
  ProcessEnd wait_for(pid_t worker);

  const WorkerProgram& program() const { return program_; }
  /// Returns the number of the launcher process, from 1. Workers end with their launcher process.
  int launch() const { return launch_; }

 private:
  /// Calls the user's function `question` of an implementation and returns the answer. Throws
  /// rank_failed with the traceback as detail if the function raises. Throws timeout or
  /// process_died if it does not return; by then the launcher has been started again.
  nlohmann::json ask_function(const char* question, const std::string& implementation,
                              const nlohmann::json& options, const nlohmann::json& problem);
  /// Returns the answer, whose `"ok"` is true or false. Throws timeout or process_died.
  nlohmann::json ask(const nlohmann::json& request, std::chrono::milliseconds patience,
                     std::initializer_list<int> descriptors = {});
  nlohmann::json ask_locked(const nlohmann::json& request, std::chrono::milliseconds patience,
                            std::initializer_list<int> descriptors = {});
  void start();
  /// Loads files_. Throws bad_input.
  nlohmann::json load_locked();

  std::mutex mutex_;
  const WorkerProgram program_;
  const std::chrono::milliseconds answer_time_;
  std::vector<std::string> files_;
  std::unique_ptr<ChildProcess> process_;  // null where the launcher was inherited
  std::unique_ptr<MessageChannel> channel_;
  std::atomic<int> launch_{0};
};

}  // namespace lossgrid
