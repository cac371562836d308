// SPDX-License-Identifier: Apache-2.0
// Names of what failed in a trial, from its record.
#pragma once

#include <string>
#include <vector>

#include "reports/record/trial_record.h"

namespace lossgrid {

/// Returns the names of the checks, invariants, verdicts on bits and costs that a trial failed on.
/// Each is in the record of the trial and a reason of its verdict. A trial that was cut short, or
/// failed without a comparison, has one name: its status and reason.
std::vector<std::string> failed_checks(const TrialRecord& trial);

}  // namespace lossgrid
