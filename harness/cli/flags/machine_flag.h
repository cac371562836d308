// SPDX-License-Identifier: Apache-2.0
// Machine for predicted times: --machine, or LOSSGRID_MACHINE.
#pragma once

#include <optional>
#include <string>

#include "harness/planner/model/machine.h"

namespace CLI {
class App;
}

namespace lossgrid {

/// Adds --machine, whose help begins with `purpose`.
void add_machine_flag(CLI::App& command, std::string& machine, const std::string& purpose);

/// Returns the machine; nullopt without a name. Throws bad_input.
std::optional<Machine> requested_machine(const std::string& machine);

}  // namespace lossgrid
