// SPDX-License-Identifier: Apache-2.0
// Properties of reports, whole ones and those of runs that did not end.
#pragma once

#include <string>

#include "fuzz/memory_file.h"
#include "reports/file/compact_report.h"
#include "reports/file/report_reader.h"
#include "reports/file/validate.h"

namespace lossgrid {

/// Aborts unless `file` is validated and read, or refused as bad_input, and a report that is read
/// and written reads back the same.
inline void require_report_properties(const ReportFile& file) {
  taken([&] { return validate(file); });
  const auto run = taken([&] { return parse_report(file); });
  if (!run) return;
  const std::string text = report_text(compact_report(*run));
  const RunRecord again = parse_report({"again.json", false, text});
  require(report_text(compact_report(again)) == text, "a written report reads back the same");
}

}  // namespace lossgrid
