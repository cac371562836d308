// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/mutation.h"

#include <algorithm>

#include "harness/core/error.h"
#include "harness/loss/registry.h"

namespace lossgrid {
namespace {

/// Returns the names of the checks, invariants and costs that a trial failed on.
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
  if (!names.empty()) return names;
  // A trial that failed without a comparison is a skip that no suite states; its reason names it.
  const std::string status =
      trial.status == TrialStatus::failed ? "" : std::string(name(trial.status)) + ": ";
  names.push_back(status + trial.reason);
  return names;
}

/// Puts the first grid that cuts both vocabulary and sequences before all others: on it most
/// mutants fail, so that one that fails in few cases is found without the other grids of those
/// before.
void begin_with_both_dimensions(std::vector<Grid>& grids) {
  const auto both = std::find_if(grids.begin(), grids.end(),
                                 [](const Grid& grid) { return grid.tp > 1 && grid.cp > 1; });
  if (both != grids.end()) std::rotate(grids.begin(), both, both + 1);
}

MutantRecord run_one(const ImplementationEntry& entry, const std::vector<Suite>& suites,
                     const RunOptions& options, ProblemCache& problems, bool& must_end) {
  MutantRecord record;
  record.name = entry.name;
  record.catalogue_id = entry.catalogue_id;
  record.what = entry.what;
  record.is_control = entry.kind == ImplementationKind::control;
  std::vector<Suite> own = suites;
  for (Suite& suite : own) {
    suite.implementations = {entry.name};
    begin_with_both_dimensions(suite.grids);
  }
  RunOptions by_grid = options;
  by_grid.order = TrialOrder::by_grid;
  must_end = run_suites(own, by_grid, problems, [&](const TrialRecord& trial) {
    if (trial.status == TrialStatus::skipped) return true;
    ++record.trials;
    if (trial.status == TrialStatus::passed) return true;
    record.rejected = true;
    record.rejected_by_case = trial.case_name;
    record.rejected_by_grid = trial.grid();
    record.rejected_by_checks = failed_checks(trial);
    record.reproduce = trial.reproduce;
    return false;
  });
  return record;
}

}  // namespace

bool run_mutants(const std::vector<Suite>& suites, const std::vector<std::string>& names,
                 const RunOptions& options, ProblemCache& problems,
                 const std::function<void(const MutantRecord&)>& sink) {
  for (const ImplementationKind kind : {ImplementationKind::mutant, ImplementationKind::control}) {
    for (const ImplementationEntry* entry : implementations(kind)) {
      const bool selected =
          names.empty() || std::find(names.begin(), names.end(), entry->name) != names.end();
      if (!selected) continue;
      bool must_end = false;
      sink(run_one(*entry, suites, options, problems, must_end));
      if (must_end) return true;
    }
  }
  return false;
}

ExitCode exit_code_of(const std::vector<MutantRecord>& mutants) {
  if (mutants.empty()) return ExitCode::nothing_ran;
  const bool as_should = std::all_of(mutants.begin(), mutants.end(), [](const MutantRecord& m) {
    return m.trials > 0 && m.rejected != m.is_control;
  });
  return as_should ? ExitCode::ok : ExitCode::correctness;
}

}  // namespace lossgrid
