// SPDX-License-Identifier: Apache-2.0
// Parts that several exporters share: the verdict on a run, names of its trials and timings, and
// facts of its environment. Pure functions of the record.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/record/record.h"

namespace lossgrid {

/// True if the run ended, with exit code 0.
bool is_good(const RunRecord& run);

/// Returns one line: "passed: 384 passed", "failed (correctness, exit code 10): 1 passed, 2
/// failed", "incomplete (ended in the middle of ID): 3 passed".
std::string verdict_line(const RunRecord& run);

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

/// Makes names unique: the second of the same name gets " #2" behind it. Consumers drop or mix up
/// entries with the same name.
class UniqueNames {
 public:
  std::string operator()(const std::string& name);

 private:
  std::map<std::string, int> seen_;
};

}  // namespace lossgrid
