// SPDX-License-Identifier: Apache-2.0
// SuiteChoice: the suites or cases that a command line names, and implementations and grids that
// replace those of the suites. Commands that run, time or plan them start from here.
#pragma once

#include <string>
#include <vector>

#include "harness/problem/case/suite.h"

namespace lossgrid {

struct SuiteChoice {
  std::string suite;               // names, files or folders, comma separated
  std::vector<std::string> cases;  // in the form of parse_sweep
  std::string default_case;        // for a command line without suite and case; empty: not allowed
  std::string implementations;     // comma separated; empty: those of the suites
  std::string grids;               // comma separated; empty: those of the suites
};

/// Returns the suites of `choice`. Cases make one suite, on tp1cp1 unless grids are given, without
/// implementations unless they are given. Errors name `command`. Throws usage for a choice of both
/// suites and cases or of neither, bad_input for files that cannot be read.
std::vector<Suite> chosen_suites(const std::string& command, const SuiteChoice& choice);

}  // namespace lossgrid
