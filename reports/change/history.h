// SPDX-License-Identifier: Apache-2.0
// History: values over many runs, for trend lines. The file is history.jsonl, one JSON object a
// line: one for each run and timed row (its time relative to the reference of the same run, see
// relative_time.h) and one for each run and passed trial (its counters). Lines are only ever added;
// a last line that was cut off is passed over.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/record.h"

namespace lossgrid {

struct HistoryRun {
  std::string id = {};           // fingerprint of the report, 16 hex digits
  std::string started_utc = {};  // "2026-01-02T03:04:05Z", may be empty
  std::string commit = {};       // of the program's source, may be empty
};

struct HistoryPoint {
  HistoryRun run = {};
  double value = 0;
  std::optional<double> stderr_ratio = {};  // standard error of a time / value
};

/// One value over runs. All members but the points are its identity.
struct HistorySeries {
  std::string metric = {};  // "time_ratio"; "peak_bytes", "payload_bytes", "calls"
  std::string case_text = {};
  std::string grid = {};  // "tp2cp1"
  std::string implementation = {};
  std::string backend = {};  // of counters; the next four are of times
  std::string phase = {};
  std::string cache = {};                 // "hot", "cold"
  std::string reference = {};             // denominator of the time: "per_sequence"
  std::string machine = {};               // "MODEL OF CPU, 2 cpus": ratios differ between machines
  std::vector<HistoryPoint> points = {};  // oldest first

  bool is_time() const { return metric == "time_ratio"; }
};

/// Returns the lines of a run, each with '\n'; empty for a run without a timed row and passed
/// trial.
std::string history_lines(const RunRecord& run);

/// Adds the lines of `run` to the file, with one write, so that runs that end at the same moment do
/// not mix. Returns their number; 0 when the file has this run already. Throws io, and bad_input
/// for a file that is no history.
std::size_t append_history(const std::string& path, const RunRecord& run);

/// Reads series from the text of a history, in the order of their first line, with points by the
/// start of their runs. Throws bad_input that names the line.
std::vector<HistorySeries> history_series(std::string_view text);

/// Reads the series of a file. Throws bad_input that names the file.
std::vector<HistorySeries> read_history(const std::string& path);

}  // namespace lossgrid
