// SPDX-License-Identifier: Apache-2.0
// Whether a file is what it says it is: a report, what a run that did not end left of one, or a
// policy.
#pragma once

#include <string>
#include <vector>

namespace lossgrid {

struct Validation {
  std::string format;                 // "lossgrid.report/1"
  bool partial = false;               // of a run that did not end
  std::vector<std::string> problems;  // place and rule, a line each; empty: valid
};

/// The file at `path`; where there is none, its partial file. Lines of a partial file are taken as
/// the report that they would have become; a last line that was cut off is passed over. Throws
/// bad_input that names the file for no JSON, an unknown format or another major version.
Validation validate_file(const std::string& path);

}  // namespace lossgrid
