// SPDX-License-Identifier: Apache-2.0
// File of a report: whole, or the lines that a run which did not end left beside its place; as
// text, or packed by gzip.
#pragma once

#include <string>

#include "reports/record/record.h"

namespace lossgrid {

/// Suffix of the partial file, behind the path of the report.
inline constexpr const char* kPartialReportSuffix = ".partial.jsonl";

struct ReportFile {
  std::string path;      // the file that was read
  bool partial = false;  // `text` is lines
  std::string text;
};

/// Reads the file at `path`; where there is none, its partial file. Unpacks content that begins as
/// gzip does, whatever the name. Throws bad_input that names the file.
ReportFile read_report_file(const std::string& path);

/// Writes a whole report, packed where the name ends in ".gz": then its text is in memory. Throws
/// io.
void write_report_file(const std::string& path, const RunRecord& run);

}  // namespace lossgrid
