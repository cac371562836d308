// SPDX-License-Identifier: Apache-2.0
// Fixture that runs one trial from a case text.
#pragma once

#include <string>
#include <string_view>

#include "harness/core/error.h"
#include "harness/core/process/sanitizers.h"
#include "harness/loss/registry.h"
#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"

namespace lossgrid {

inline TrialSetup make_setup(const PreparedProblem& prepared, const std::string& implementation,
                             const Grid& grid) {
  return make_trial(prepared, implementation, grid);
}

inline TrialRecord run_case(const std::string& case_text, const std::string& implementation,
                            const Grid& grid) {
  const PreparedProblem prepared = prepare(make_problem(parse_case(case_text)));
  return run_trial(make_setup(prepared, implementation, grid), std::chrono::seconds(60)).record;
}

/// Sanitizers need every path once, not every grid.
#if LOSSGRID_ASAN || LOSSGRID_TSAN
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Grids: all of one stage up to eight ranks, also those that divide nothing evenly, and some of
/// several stages.
inline const std::vector<Grid>& all_grids() {
  static const std::vector<Grid> few{
      {1, 1}, {3, 1}, {1, 4}, {2, 2}, {1, 2, 3}, {2, 2, 2}, {1, 2, 2, false, 2}};
  if (kSanitized) return few;
  static const std::vector<Grid> grids = [] {
    std::vector<Grid> all{{.pp = 5}, {2, 1, 1, false, 2}, {1, 2, 2, false, 2}};
    for (int dp = 1; dp <= 8; ++dp) {
      for (int cp = 1; cp * dp <= 8; ++cp) {
        for (int tp = 1; tp * cp * dp <= 8; ++tp) all.push_back({tp, cp, dp});
      }
    }
    return all;
  }();
  return grids;
}

inline const CheckRecord& check_of(const TrialRecord& record, std::string_view name) {
  for (const CheckRecord& check : record.checks) {
    if (check.name == name) return check;
  }
  throw Error(ErrorCode::internal, "no check " + std::string(name));
}

inline std::string invariant_of(const TrialRecord& record, const std::string& name) {
  for (const InvariantRecord& invariant : record.invariants) {
    if (invariant.name == name) return invariant.status;
  }
  return "missing";
}

}  // namespace lossgrid
