// SPDX-License-Identifier: Apache-2.0
// Writes a report so that a crash loses nothing: finished trials go at once, one JSON line each, to
// `<path>.partial.jsonl`; at the end the whole report is written beside its place and renamed, and
// the partial file is removed.
#pragma once

#include <cstdio>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "reports/record.h"

namespace lossgrid {

/// Of the partial file, behind the path of the report.
inline constexpr const char* kPartialReportSuffix = ".partial.jsonl";

class ReportWriter {
 public:
  /// Makes missing folders, refuses a path that is a folder and opens the partial file; throws io
  /// that names the path when it cannot be written, or while another process writes this report,
  /// before any trial runs. First line of the partial file: the run without trials.
  ReportWriter(std::string path, const RunRecord& run);
  ~ReportWriter();
  ReportWriter(ReportWriter&& other) noexcept;
  ReportWriter& operator=(ReportWriter&&) = delete;

  /// Appends {"begin": id} of a trial or timing that is about to run: should the process die, a
  /// reader knows what it died of.
  void begin(const std::string& id);

  /// Appends one trial, timing, A/B comparison or mutant, {"trial": ...}, {"timing": ...},
  /// {"ab": ...} or {"mutant": ...}, and flushes it to the file system. Throws io.
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
  std::FILE* partial_ = nullptr;  // null for a device or pipe, which cannot have a file beside it
};

}  // namespace lossgrid
