// SPDX-License-Identifier: Apache-2.0
// Mutation score of suites: every mutant runs until a trial rejects it; every control (another
// right way of computing the same) runs on all trials and must never be rejected.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/runner/run.h"

namespace lossgrid {

/// Runs mutants and controls and calls `sink` for each. `names` selects some ("mutant/..."), all
/// when empty. Returns true when the process must end, as run_suites does.
bool run_mutants(const std::vector<Suite>& suites, const std::vector<std::string>& names,
                 const RunOptions& options, ProblemCache& problems,
                 const std::function<void(const MutantRecord&)>& sink);

/// Returns 0 when every mutant was rejected and no control was, else 10; 77 when there was none.
ExitCode exit_code_of(const std::vector<MutantRecord>& mutants);

}  // namespace lossgrid
