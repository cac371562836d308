// SPDX-License-Identifier: Apache-2.0
// --inject: a fault on one rank of a run, as a test of the harness, and the check that it fired. A
// fault that never fires is a mistake in the command line: nothing was tested.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/comm/faults/fault.h"
#include "harness/runner/job/ranks.h"

namespace CLI {
class App;
}

namespace lossgrid {

struct InjectFlag {
  std::string fault;      // as on the command line; empty: no fault
  bool may_miss = false;  // true in a launch of --supervise, as it may strike another launch
};

void add_inject_flag(CLI::App& command, InjectFlag& flag);

/// Returns the fault of `flag`; nullopt without a fault. Throws usage for a fault that is
/// impossible on `backend`.
std::optional<Fault> requested_fault(const InjectFlag& flag, const std::string& backend);

/// Returns the remaining fault after `count` trials: nullopt if it was in one of these trials.
std::optional<Fault> fault_behind(std::size_t count, std::optional<Fault> fault);

/// True if there is a fault and it fired on no rank of any process. Collective over processes.
bool has_missed(const std::optional<Fault>& fault, const Ranks& ranks);

/// Throws usage with a line that names the fault, unless it may miss.
void refuse_missed(const InjectFlag& flag);

}  // namespace lossgrid
