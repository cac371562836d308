// SPDX-License-Identifier: Apache-2.0
// `ReportWriter`: file of a report, written so that a crash loses nothing. Finished trials go at
// once, one JSON line each, to `<path>.partial.jsonl`; at the end the whole report is written
// beside its place and renamed, and the partial file is removed. The form of both is that of
// compact_report.h; a whole report whose name ends in ".gz" is packed.
#pragma once

#include <cstdio>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reports/file/compact_report.h"
#include "reports/file/report_file.h"
#include "reports/record/record.h"

namespace lossgrid {

class ReportWriter {
 public:
  /// Makes missing folders, refuses a path that is a folder and opens the partial file; throws io
  /// that names the path when it cannot be written, or while another process writes this report,
  /// before any trial runs. First line of the partial file: the run without trials, with its
  /// planned work.
  ReportWriter(std::string path, const RunRecord& run);
  ~ReportWriter();
  ReportWriter(ReportWriter&& other) noexcept;
  ReportWriter& operator=(ReportWriter&&) = delete;

  /// Appends {"begin": id, "reproduce": line} for a trial or timing that is about to run: should
  /// the process die, a reader knows the trial it died in. `reproduce`: a command line, may be
  /// empty.
  void begin(const std::string& id, const std::string& reproduce);

  /// Appends one trial, timing, A/B comparison or mutant, {"trial": ...}, {"timing": ...},
  /// {"ab": ...} or {"mutant": ...}, and flushes it to the file system. With a trial come its
  /// additions to the lists that trials share, {"trial": ..., "shared": {...}}: a line needs only
  /// those before it. Throws io.
  void add(const TrialRecord& trial);
  void add(const TimingRecord& timing);
  void add(const AbRecord& comparison);
  void add(const MutantRecord& mutant);

  /// Writes the report as it is so far; the partial file stays. Throws io.
  void write(const RunRecord& run) const;
  /// Writes the report and removes the partial file. Throws io; then the partial file stays.
  void finish(const RunRecord& run);

  const std::string& path() const { return path_; }

 private:
  void append(const nlohmann::ordered_json& line);
  void close();

  std::string path_;
  std::string partial_path_;
  CompactTrials compact_;         // trials of the partial file
  std::FILE* partial_ = nullptr;  // null for a device or pipe, which cannot have a file beside it
};

}  // namespace lossgrid
