// SPDX-License-Identifier: Apache-2.0
// Trials of a small case that starts from hidden states, and parts of their records.
#pragma once

#include <chrono>
#include <string>

#include "harness/runner/job/problem_cache.h"
#include "harness/runner/trial/trial.h"
#include "trial_fixture.h"

namespace lossgrid {
namespace linear_setup {

using std::chrono::seconds;

// 24 rows and 25 ids: on two tp ranks the shards are 13 wide, and the second one ends in padding.
// Rows 7 and 23 predict nothing.
inline constexpr const char* kCase = "lens=8+16 vocab=25 hidden=6 mask=all";
inline constexpr std::int64_t kHidden = 6;
inline constexpr std::int64_t kWidth = 13;

inline TrialSetup setup_of(const std::string& case_text, const std::string& implementation,
                           const Grid& grid) {
  return make_trial(prepare(make_problem(parse_case(case_text))), implementation, grid);
}

inline std::string invariant_with_detail(const TrialRecord& record, const std::string& name) {
  for (const InvariantRecord& invariant : record.invariants) {
    if (invariant.name == name) return invariant.status + ": " + invariant.detail;
  }
  return "missing";
}

}  // namespace linear_setup
}  // namespace lossgrid
