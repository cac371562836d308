// SPDX-License-Identifier: Apache-2.0
// Single trials of a run: the list of trials before they run, and the choice of some trials to run.
// Programs that present each trial as a separate test (pytest) use both.
#pragma once

#include <string>
#include <vector>

#include "harness/problem/case/suite.h"

namespace lossgrid {

/// Returns the part of `suites` whose trials the file at `path` lists, one id per line: suites with
/// one case and one implementation each, in the same order and without timings. Throws bad_input
/// for an id that the suites do not have, naming its line, and for a file without ids.
std::vector<Suite> only_listed_trials(const std::vector<Suite>& suites, const std::string& path);

/// Returns a JSON line for each trial of the suites, in the order of a run: id, name of the case,
/// grid and implementation.
std::string list_of_trials(const std::vector<Suite>& suites);

}  // namespace lossgrid
