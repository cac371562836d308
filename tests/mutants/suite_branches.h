// SPDX-License-Identifier: Apache-2.0
// The suite that CI runs, and the branches of formulas that cases of a suite take.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "harness/problem/case/suite.h"
#include "harness/runner/trial/trial.h"
#include "harness/verify/truth/unpadded_batch.h"

namespace lossgrid {

/// Returns the suite that CI runs.
inline const Suite& suite_ci() {
  static const Suite suite = read_suite(LOSSGRID_SOURCE_DIR "/cases/ci.json");
  return suite;
}

/// Returns the largest share that any case has of each branch.
inline std::map<std::string, double> largest_shares(const Suite& suite) {
  std::map<std::string, double> largest;
  ProblemCache problems;
  for (const CaseSpec& spec : suite.cases) {
    const TrialSetup setup = make_trial(problems.get(spec), "reference", {1, 1});
    for (const auto& [branch, share] :
         setup.truth->objective.branch_shares(unpadded_batch(*setup.problem))) {
      largest[branch] = std::max(largest[branch], share);
    }
  }
  return largest;
}

}  // namespace lossgrid
