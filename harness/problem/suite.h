// SPDX-License-Identifier: Apache-2.0
// A suite: cases x grids x implementations, in a JSON file under cases/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/comm/process_grid.h"
#include "harness/problem/case_spec.h"

namespace lossgrid {

/// All implementations of a case on a grid are timed in turn, this many times each.
struct TimingRequest {
  int rounds = 0;        // in [1, 1000]
  std::string baseline;  // the implementation that the others are compared with
};

struct Suite {
  std::string name;
  std::string summary;
  std::vector<Grid> grids;
  std::vector<std::string> implementations;  // as on the command line: name[:option=value]
  std::vector<CaseSpec> cases;
  std::optional<TimingRequest> timing;
};

/// Reads a suite file: {"suite": 1, "name", "summary", "grids": ["tp1cp2", ..],
/// "implementations": [..], "cases": [{...}]}, optional "timing": {"rounds": 11, "baseline": one of
/// the implementations}. Throws bad_input that names the file, the line (for
/// malformed JSON) or the entry and key. A case without a name is named by its text; names and
/// grids are unique.
Suite read_suite(const std::string& path);

/// Folder with the suites: LOSSGRID_CASES_DIR, else ./cases, else a folder `cases` beside or above
/// the executable. Throws bad_input when there is none.
std::string cases_directory();

/// Names of the suites there (file names without .json), sorted; those in regress/ as "regress/x".
std::vector<std::string> suite_names();

/// Path of a suite given by name or by path (with .json). "regress" is a folder: all of its files.
/// Throws bad_input with the nearest name.
std::vector<std::string> find_suite(const std::string& name_or_path);

}  // namespace lossgrid
