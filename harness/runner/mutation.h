// SPDX-License-Identifier: Apache-2.0
// Mutation score of suites: every mutant runs until a trial rejects it; every control (another
// right way of computing the same, or a loaded function with nothing changed) runs on all trials
// and must never be rejected.
//
// A failed trial rejects a mutant only if its mistake is the reason: the implementation that it is
// made of passes the same trial, and the check that the catalogue names is among those that failed.
// Of a loaded function, cases that it fails with nothing changed are left out.
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

/// True if `failed`, the checks of a trial that rejected a mutant, has one of those named `checks`
/// ("loss or metric": also a metric's own name), or the trial ended with a status of this name:
/// "error: rank 7 left". Any will do where none is named.
bool has_named_check(const std::vector<std::string>& failed, const std::string& checks);

/// Returns the names in "loss or grad_logits or metric".
std::vector<std::string> alternatives(std::string checks);

/// Returns 0 when every mutant that ran was rejected and no control was, else 10; 77 when nothing
/// ran.
ExitCode exit_code_of(const std::vector<MutantRecord>& mutants);

}  // namespace lossgrid
