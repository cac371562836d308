// SPDX-License-Identifier: Apache-2.0
#include "reports/record/unjudged.h"

#include <algorithm>

namespace lossgrid {
namespace {

bool reached_checks(const TrialRecord& trial) {
  return trial.status == TrialStatus::passed || trial.status == TrialStatus::failed;
}

/// Returns true if a trial of the row's implementation compared value and gradient of its output.
bool is_judged(const RunRecord& run, const UnjudgedRow& row) {
  return std::any_of(run.trials.begin(), run.trials.end(), [&](const TrialRecord& trial) {
    return trial.implementation == row.implementation && reached_checks(trial) &&
           !trial.unjudged.contains(row.output);
  });
}

}  // namespace

std::vector<UnjudgedRow> unjudged_outputs(const RunRecord& run) {
  std::vector<UnjudgedRow> rows;
  for (const TrialRecord& trial : run.trials) {
    if (!reached_checks(trial)) continue;
    for (const auto& [output, state] : trial.unjudged) {
      const auto same = std::find_if(rows.begin(), rows.end(), [&](const UnjudgedRow& row) {
        return row.implementation == trial.implementation && row.output == output;
      });
      if (same == rows.end()) {
        rows.push_back({trial.implementation, output, state});
      } else if (state == kValueAlone) {
        same->state = state;
      }
    }
  }
  std::erase_if(rows, [&](const UnjudgedRow& row) { return is_judged(run, row); });
  return rows;
}

}  // namespace lossgrid
