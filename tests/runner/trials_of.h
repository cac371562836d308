// SPDX-License-Identifier: Apache-2.0
// The records of all trials of a suite.
#pragma once

#include <vector>

#include "harness/runner/run.h"

namespace lossgrid {

inline std::vector<TrialRecord> trials_of(const Suite& suite, const RunOptions& options = {}) {
  ProblemCache problems;
  std::vector<TrialRecord> trials;
  run_suites({suite}, options, problems, [&](const TrialRecord& trial) {
    trials.push_back(trial);
    return true;
  });
  return trials;
}

}  // namespace lossgrid
