// SPDX-License-Identifier: Apache-2.0
// The trials of a run one by one: their list before they run, and a run of some of them. Programs
// that present each trial as a test of their own (pytest) use both.
#pragma once

#include <string>
#include <vector>

#include "harness/problem/case/suite.h"

namespace lossgrid {

/// Returns the part of `suites` whose trials the file at `path` lists by id, one a line, as suites
/// of one case and one implementation each, in the same order and without timings. Throws bad_input
/// that names the line for an id that the suites do not have, and for a file that lists none.
std::vector<Suite> only_listed_trials(const std::vector<Suite>& suites, const std::string& path);

/// Returns a JSON line for each trial of the suites, in the order of a run: id, name of the case,
/// grid and implementation.
std::string list_of_trials(const std::vector<Suite>& suites);

}  // namespace lossgrid
