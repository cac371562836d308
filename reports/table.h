// SPDX-License-Identifier: Apache-2.0
// The table a person reads after a run: one row per (case, implementation), grids folded, worst
// ratios, peak memory, collective calls and bytes; then everything that did not pass, each with the
// line that reproduces it.
#pragma once

#include <string>

#include "reports/record.h"

namespace lossgrid {

std::string format_trials_table(const RunRecord& run);
std::string format_mutants_table(const RunRecord& run);
/// "120 passed, 2 failed, 5 skipped", and the non-passing trials with reason and reproduction line.
std::string format_summary(const RunRecord& run);

}  // namespace lossgrid
