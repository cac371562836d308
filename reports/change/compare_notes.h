// SPDX-License-Identifier: Apache-2.0
// Circumstances of a comparison: machines and builds that differ, times that carry little
// weight, trials that fail in both reports, and a HEAD that did not come to its end. Internal to
// compare.cpp.
#pragma once

#include <string>
#include <vector>

#include "harness/core/error.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Returns one line for each circumstance.
std::vector<std::string> comparison_notes(const RunRecord& base, const RunRecord& head);

/// Cause of death of a run.
struct DeadRun {
  std::string text = {};  // ", dead in the middle of ID"; empty when nothing more is known
  ExitCode code = ExitCode::rank_crashed;  // or hang
};

/// Returns the last known cause. Requires a run whose status is not "complete".
DeadRun how_it_died(const RunRecord& run);

}  // namespace lossgrid
