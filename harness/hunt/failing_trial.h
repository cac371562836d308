// SPDX-License-Identifier: Apache-2.0
// `FailingTrial`: a case, an implementation and the grids on which a check fails.
#pragma once

#include <string>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/case/case_spec.h"
#include "harness/problem/case/suite.h"
#include "reports/record/trial_record.h"

namespace lossgrid {

struct FailingTrial {
  CaseSpec spec;
  std::string implementation;  // as on the command line
  // The last one fails; those before it are compared with it (determinism over grids).
  std::vector<Grid> grids;
  std::string check;  // name of a check, invariant, verdict or cost, or a status ("crashed")
};

/// Returns the names of what failed in a trial; of one that was cut short its status alone, whose
/// reason differs from trial to trial.
std::vector<std::string> names_of_failure(const TrialRecord& record);

/// Returns the suite of one case and one implementation.
Suite suite_of(const FailingTrial& trial, Backend backend);

/// Returns the command line that runs the trial again, with --load for a loaded implementation.
std::string reproduce(const FailingTrial& trial, Backend backend);

}  // namespace lossgrid
