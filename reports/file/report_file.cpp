// SPDX-License-Identifier: Apache-2.0
#include "reports/file/report_file.h"

#include <filesystem>
#include <span>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "reports/file/compact_report.h"
#include "reports/file/packed_text.h"

namespace lossgrid {

namespace fs = std::filesystem;

ReportFile read_report_file(const std::string& path) {
  const std::string partial = path + kPartialReportSuffix;
  const bool only_partial = !fs::exists(path) && fs::exists(partial);
  ReportFile file{only_partial ? partial : path, only_partial || path.ends_with(".jsonl"), ""};
  file.text = read_text_file(file.path);
  if (!is_gzip(file.text)) return file;
  try {
    file.text = gunzip(file.text);
  } catch (const Error& error) {
    throw_bad_input("{}: {}", file.path, error.what());
  }
  return file;
}

void write_report_file(const std::string& path, const RunRecord& run) {
  if (path.ends_with(".gz")) return write_file_atomically(path, gzip(compact_report_text(run)));
  write_file_by_pieces(path, [&](const ByteSink& sink) {
    write_compact_report(run, [&](std::string_view text) { sink(std::as_bytes(std::span(text))); });
  });
}

}  // namespace lossgrid
