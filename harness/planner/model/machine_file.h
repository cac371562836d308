// SPDX-License-Identifier: Apache-2.0
// Text form of machines: the entries of cases/machines.json, and files of the same form that
// `lossgrid calibrate` writes.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/planner/model/machine.h"

namespace lossgrid {

/// Reads all entries of a file. Throws bad_input that names the file and the entry, also for rates
/// and sizes that are not positive.
std::vector<Machine> read_machines(const std::string& path);

/// Returns the path of cases/machines.json.
std::string machines_path();

/// Returns an entry of cases/machines.json or, for a name that contains '/' or ends in ".json", the
/// only entry of the file of that name. Throws bad_input with the nearest name.
Machine find_machine(const std::string& name);

/// Returns a file with these entries.
nlohmann::ordered_json machines_to_json(const std::vector<Machine>& machines);

}  // namespace lossgrid
