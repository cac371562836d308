// SPDX-License-Identifier: Apache-2.0
#include "harness/cli/flags/machine_flag.h"

#include <CLI/CLI.hpp>

#include "harness/planner/model/machine_file.h"

namespace lossgrid {

void add_machine_flag(CLI::App& command, std::string& machine, const std::string& purpose) {
  command
      .add_option("--machine", machine,
                  purpose + ": a name (lossgrid list machines), or a file of lossgrid calibrate")
      ->envname("LOSSGRID_MACHINE");
}

std::optional<Machine> requested_machine(const std::string& machine) {
  if (machine.empty()) return std::nullopt;
  return find_machine(machine);
}

}  // namespace lossgrid
