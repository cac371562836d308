// SPDX-License-Identifier: Apache-2.0
// The circumstances of a comparison: machines and builds that differ, times that carry little
// weight, trials that fail in both reports, and a HEAD that did not come to its end. Internal to
// compare.cpp.
#pragma once

#include <string>
#include <vector>

#include "harness/core/error.h"
#include "reports/record/record.h"

namespace lossgrid {

/// One line each.
std::vector<std::string> comparison_notes(const RunRecord& base, const RunRecord& head);

/// The end of a run that did not come to its own.
struct DeadRun {
  std::string text;  // "in the middle of ID"; empty when nothing more is known
  ExitCode code = ExitCode::rank_crashed;  // or hang
};

/// Requires a run whose status is not "complete".
DeadRun how_it_died(const RunRecord& run);

}  // namespace lossgrid
