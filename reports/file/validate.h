// SPDX-License-Identifier: Apache-2.0
// Check of a file by its format: a report, the partial file of a run that did not end, or a policy.
#pragma once

#include <string>
#include <vector>

#include "reports/file/report_file.h"

namespace lossgrid {

struct Validation {
  std::string format;                 // "lossgrid.report/1"
  bool partial = false;               // the run did not end
  std::vector<std::string> problems;  // place and rule, a line each; empty: valid
};

/// Checks the file at `path`; where there is none, its partial file. Lines of a partial file count
/// as the report that they would have become; a last line that was cut off is passed over. Throws
/// bad_input that names the file for no JSON, a key that stands twice in one object, an unknown
/// format or another version.
Validation validate_file(const std::string& path);

/// Checks the text of a file. Throws as validate_file does.
Validation validate(const ReportFile& file);

}  // namespace lossgrid
