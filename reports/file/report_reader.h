// SPDX-License-Identifier: Apache-2.0
// Reader of the files of report_writer.h: a whole report, or the lines that a run which did not end
// left in `<path>.partial.jsonl`. Keys that are not known are passed over; numbers that JSON
// cannot hold (NaN, infinities) come back as NaN, and ratios as infinity. Tables are made anew.
#pragma once

#include <string>

#include "reports/file/report_file.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Reads the run at `path`; where there is no such file, its partial file. A last line that was cut
/// off is passed over. Throws io, and bad_input with the file and its fault: no JSON, no report,
/// another version.
RunRecord read_report(const std::string& path);

/// Reads the run in the text of a file. Throws as read_report does.
RunRecord parse_report(const ReportFile& file);

}  // namespace lossgrid
