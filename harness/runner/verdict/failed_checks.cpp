// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/verdict/failed_checks.h"

#include <algorithm>
#include <cstring>

namespace lossgrid {
namespace {

/// True if the verdict on a trial has `name` among its reasons: "grad_logits: ratio 3 at rank 0;
/// determinism: run_to_run gave different bits; memory: rank 1 needed ...".
bool is_a_reason(const TrialRecord& trial, const std::string& name) {
  for (const std::string& begin : {name, "determinism: " + name}) {
    for (std::size_t at = trial.reason.find(begin); at != std::string::npos;
         at = trial.reason.find(begin, at + 1)) {
      const std::size_t end = at + begin.size();
      const bool begins = at == 0 || (at > 1 && trial.reason.compare(at - 2, 2, "; ") == 0);
      const bool ends = end == trial.reason.size() || std::strchr(":; ", trial.reason[end]);
      if (begins && ends) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> failed_checks(const TrialRecord& trial) {
  std::vector<std::string> names;
  for (const CheckRecord& check : trial.checks) {
    if (!check.passed) names.push_back(check.name);
  }
  for (const InvariantRecord& invariant : trial.invariants) {
    if (invariant.status == "failed") names.push_back(invariant.name);
  }
  for (const DeterminismRecord& verdict : trial.determinism) {
    if (verdict.claimed && verdict.verdict == "different_bits") names.push_back(verdict.name);
  }
  names.insert(names.end(), trial.cost_mismatches.begin(), trial.cost_mismatches.end());
  std::erase_if(names, [&](const std::string& name) { return !is_a_reason(trial, name); });
  if (!names.empty()) return names;
  // A trial that failed without a comparison is a skip that no suite states; its reason names it.
  const std::string status =
      trial.status == TrialStatus::failed ? "" : std::string(name(trial.status)) + ": ";
  names.push_back(status + trial.reason);
  return names;
}

}  // namespace lossgrid
