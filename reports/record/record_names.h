// SPDX-License-Identifier: Apache-2.0
// Names of the trials, timings and comparisons of a run, and facts about it. Pure functions of the
// record.
#pragma once

#include <string>

#include "reports/record/record.h"

namespace lossgrid {

/// True if the run ended, with exit code 0.
bool is_good(const RunRecord& run);

/// Returns the wrong verdict on the mutant or control; empty when its verdict is right, or when
/// nothing in the suites applies to it.
std::string mutant_problem(const MutantRecord& mutant);

/// Returns "lens=5+8 vocab=96", also for a trial without a case name.
std::string case_text(const TrialRecord& trial);

/// "CASE/IMPLEMENTATION/GRID"
std::string trial_name(const TrialRecord& trial);

/// "CASE/IMPLEMENTATION/GRID/PHASE/CACHE"
std::string timing_name(const TimingRecord& timing, const TimingRow& row);

/// "CASE/B over A/GRID/PHASE/CACHE"
std::string ab_name(const AbRecord& record);

/// Returns "REGRESSED: 1.100 [1.090, 1.110], 12 launches, margin 3 %"; a false alarm begins with
/// "false alarm, ".
std::string ab_finding(const AbRecord& record);

/// Returns environment[section][key] as text, empty when it is not there.
std::string environment_text(const RunRecord& run, const char* section, const char* key);

}  // namespace lossgrid
