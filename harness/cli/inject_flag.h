// SPDX-License-Identifier: Apache-2.0
// --inject: a fault on one rank of a run, to see what the harness does about it, and the check that
// it fired. A fault that never fires is a mistake in the command line: nothing was tried out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/comm/faults/fault.h"
#include "harness/runner/ranks.h"

namespace CLI {
class App;
}

namespace lossgrid {

struct InjectFlag {
  std::string fault;      // as on the command line; empty: none
  bool may_miss = false;  // a launch of --supervise: another launch may be the one that it strikes
};

void add_inject_flag(CLI::App& command, InjectFlag& flag);

/// The fault that is asked for. Throws usage for one that the backend cannot have.
std::optional<Fault> requested_fault(const InjectFlag& flag, const std::string& backend);

/// The fault as it is for what runs behind `count` trials: none when it was theirs.
std::optional<Fault> fault_behind(std::size_t count, std::optional<Fault> fault);

/// True where there is a fault and no rank of any process came to it. Collective over processes.
bool has_missed(const std::optional<Fault>& fault, const Ranks& ranks);

/// Throws usage with a line that names the fault, unless it may miss.
void refuse_missed(const InjectFlag& flag);

}  // namespace lossgrid
