// SPDX-License-Identifier: Apache-2.0
// The file of a report: whole, or the lines that a run which did not end left beside its place; as
// text, or packed by gzip.
#pragma once

#include <string>

namespace lossgrid {

/// Of the partial file, behind the path of the report.
inline constexpr const char* kPartialReportSuffix = ".partial.jsonl";

struct ReportFile {
  std::string path;      // of the file that was read
  bool partial = false;  // lines
  std::string text;
};

/// The file at `path`; where there is none, its partial file. What begins as gzip does is unpacked,
/// whatever its name. Throws bad_input that names the file.
ReportFile read_report_file(const std::string& path);

/// Writes a whole report, packed where the name ends in ".gz". Throws io.
void write_report_file(const std::string& path, const std::string& text);

}  // namespace lossgrid
