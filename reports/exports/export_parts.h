// SPDX-License-Identifier: Apache-2.0
// What several exporters say about a run: whether all was as it should be, names of its trials and
// timings, and facts of its environment. Pure functions of the record.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/record/record.h"

namespace lossgrid {

/// It ended, and with exit code 0.
bool is_good(const RunRecord& run);

/// One line: "passed: 384 passed", "failed (correctness, exit code 10): 1 passed, 2 failed",
/// "incomplete (ended in the middle of ID): 3 passed".
std::string verdict_line(const RunRecord& run);

/// No trial reached the mutant or control, or it is not what it should be; empty when it is.
std::string mutant_problem(const MutantRecord& mutant);

/// "lens=5+8 vocab=96", also of a trial without a case name.
std::string case_text(const TrialRecord& trial);

/// "CASE/IMPLEMENTATION/GRID"
std::string trial_name(const TrialRecord& trial);

/// "CASE/IMPLEMENTATION/GRID/PHASE/CACHE"
std::string timing_name(const TimingRecord& timing, const TimingRow& row);

/// "CASE/B over A/GRID/PHASE/CACHE"
std::string ab_name(const AbRecord& record);

/// "REGRESSED: 1.100 [1.090, 1.110], 12 launches, margin 3 %", a false alarm as such.
std::string ab_finding(const AbRecord& record);

/// environment[section][key] as text, empty when it is not there.
std::string environment_text(const RunRecord& run, const char* section, const char* key);

/// Consumers drop or mix up what has the same name: the second one gets " #2" behind it.
class UniqueNames {
 public:
  std::string operator()(const std::string& name);

 private:
  std::map<std::string, int> seen_;
};

}  // namespace lossgrid
