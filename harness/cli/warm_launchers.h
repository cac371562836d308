// SPDX-License-Identifier: Apache-2.0
// `WarmLaunchers`: a process of Python that has imported PyTorch and forks a launcher for each of
// several runs that follow each other (python/PROTOCOL.md, Warm launchers). A run is another
// process, which finds its launcher by kInheritedLauncher. One thread.
#pragma once

#include <string>
#include <vector>

#include "harness/core/process/child_process.h"
#include "harness/core/process/descriptor.h"
#include "harness/external/message_channel.h"
#include "harness/external/worker_launcher.h"

namespace lossgrid {

class WarmLaunchers {
 public:
  /// Starts `program`, a launcher's, to import PyTorch. Throws bad_input if it cannot be started.
  explicit WarmLaunchers(WorkerProgram program);

  /// Waits for the import. Throws bad_input with the reason if there is no PyTorch, or its process
  /// cannot be forked.
  void wait_until_warm();

  /// Forks a launcher, and ends the one before. Returns its socket, which stays open in programs
  /// that this process starts. Throws bad_input if the process has ended.
  Descriptor launch();

  /// Returns the files on which the load by the last launcher depends.
  std::vector<std::string> sources() const;

 private:
  nlohmann::json ask(const nlohmann::json& request, std::initializer_list<int> descriptors = {});

  MessageChannel channel_{Descriptor()};
  ChildProcess process_;
  Descriptor sources_;
};

}  // namespace lossgrid
