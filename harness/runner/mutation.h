// SPDX-License-Identifier: Apache-2.0
// The mutation score: every mutant runs on a suite until a trial rejects it; every control (another
// right way of computing the same) runs on all of it and must never be rejected.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/runner/run.h"

namespace lossgrid {

/// `names` selects mutants and controls ("mutant/..."), all when empty. `sink` is called for each.
/// Returns as run_suites does.
bool run_mutants(const std::vector<Suite>& suites, const std::vector<std::string>& names,
                 const RunOptions& options, ProblemCache& problems,
                 const std::function<void(const MutantRecord&)>& sink);

/// 0 when every mutant was rejected and no control was, else 10; 77 when there was none.
ExitCode exit_code_of(const std::vector<MutantRecord>& mutants);

}  // namespace lossgrid
