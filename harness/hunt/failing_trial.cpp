// SPDX-License-Identifier: Apache-2.0
#include "harness/hunt/failing_trial.h"

#include "harness/core/text.h"
#include "harness/runner/trial/trial.h"
#include "harness/runner/verdict/failed_checks.h"

namespace lossgrid {

std::vector<std::string> names_of_failure(const TrialRecord& record) {
  if (was_cut_short(record.status)) return {std::string(name(record.status))};
  return failed_checks(record);
}

Suite suite_of(const FailingTrial& trial, Backend backend) {
  Suite suite;
  suite.name = "hunt";
  suite.cases = {trial.spec};
  suite.grids = trial.grids;
  suite.implementations = {trial.implementation};
  suite.backend = backend;
  return suite;
}

std::string reproduce(const FailingTrial& trial, Backend backend) {
  std::string line =
      reproduce_case(format_case(trial.spec), trial.implementation, trial.grids.back(), backend);
  if (trial.grids.size() == 1) return line;
  std::vector<std::string> names;
  for (const Grid& grid : trial.grids) names.push_back(format_grid(grid));
  const std::string last = "--grid " + names.back();
  return line.replace(line.find(last), last.size(), "--grid " + join(names, ","));
}

}  // namespace lossgrid
