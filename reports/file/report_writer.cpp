// SPDX-License-Identifier: Apache-2.0
#include "reports/file/report_writer.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/file.h"
#include "reports/file/report_format.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_io(const std::string& path) {
  throw Error(ErrorCode::io,
              fmt::format("cannot write {}: {}", path, std::generic_category().message(errno)));
}

bool is_special_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_status about = fs::status(path, ignored);
  return fs::exists(about) && !fs::is_regular_file(about);
}

}  // namespace

ReportWriter::ReportWriter(std::string path, const RunRecord& run)
    : path_(std::move(path)), partial_path_(path_ + kPartialReportSuffix) {
  prepare_file_path(path_);
  if (is_special_file(path_)) return;
  partial_ = open_for_one_writer(partial_path_);
  nlohmann::ordered_json header = run_header_to_json(run);
  header["run"]["status"] = "partial";
  header["run"]["exit_code"] = nullptr;
  if (run.planned) {
    header["run"]["planned"] = {{"trials", run.planned->trials}, {"timings", run.planned->timings}};
  }
  header["defaults"] = report_format().defaults;
  try {
    append(header);
  } catch (...) {
    close();
    throw;
  }
}

ReportWriter::~ReportWriter() {
  close();
}

ReportWriter::ReportWriter(ReportWriter&& other) noexcept
    : path_(std::move(other.path_)),
      partial_path_(std::move(other.partial_path_)),
      compact_(std::move(other.compact_)),
      partial_(std::exchange(other.partial_, nullptr)) {}

void ReportWriter::close() {
  if (partial_ != nullptr) std::fclose(std::exchange(partial_, nullptr));
}

void ReportWriter::append(const nlohmann::ordered_json& line) {
  if (partial_ == nullptr) return;
  const std::string text = json_text(line, -1) + '\n';
  if (std::fwrite(text.data(), 1, text.size(), partial_) != text.size() ||
      std::fflush(partial_) != 0) {
    throw_io(partial_path_);
  }
}

void ReportWriter::begin(const std::string& id, const std::string& reproduce) {
  append({{"begin", id}, {"reproduce", reproduce}});
}

void ReportWriter::add(const TrialRecord& trial) {
  const StageScope scope(Stage::report);
  nlohmann::ordered_json line{{"trial", compact_.add(trial)}};
  nlohmann::ordered_json added = compact_.take_new();
  if (!added.empty()) line["shared"] = std::move(added);
  append(line);
}

void ReportWriter::add(const TimingRecord& timing) {
  const StageScope scope(Stage::report);
  append({{"timing", timing_to_json(timing)}});
}

void ReportWriter::add(const AbRecord& comparison) {
  const StageScope scope(Stage::report);
  append({{"ab", ab_to_json(comparison)}});
}

void ReportWriter::add(const MutantRecord& mutant) {
  const StageScope scope(Stage::report);
  append({{"mutant", mutant_to_json(mutant)}});
}

void ReportWriter::write(const RunRecord& run) const {
  write_report_file(path_, run);
}

void ReportWriter::finish(const RunRecord& run) {
  write(run);
  if (partial_ == nullptr) return;
  std::error_code ignored;  // the report is there; a leftover beside it is no failure
  fs::remove(partial_path_, ignored);
  close();  // last: as long as it is there, it is locked
}

}  // namespace lossgrid
