// SPDX-License-Identifier: Apache-2.0
#include "reports/change/history.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "harness/core/file.h"
#include "harness/core/hash.h"
#include "reports/change/relative_time.h"
#include "reports/file/compact_report.h"
#include "reports/file/json_fields.h"
#include "reports/file/report_json.h"
#include "reports/record/record_names.h"

namespace lossgrid {
namespace {

constexpr std::string_view kHistoryFormat = "lossgrid.history/1";
constexpr const char* kTime = "time_ratio";
constexpr const char* kCounters[] = {"peak_bytes", "payload_bytes", "calls"};

std::string run_id(const RunRecord& run) {
  const std::string text = compact_report_text(run);
  return fmt::format("{:016x}", fingerprint(std::as_bytes(std::span(text))));
}

std::string machine_of(const RunRecord& run) {
  return fmt::format("{}, {} cpus", environment_text(run, "host", "cpu_model"),
                     environment_text(run, "host", "cpus"));
}

ReportJson line_of(const RunRecord& run, const std::string& id) {
  ReportJson line;
  line["schema"] = kHistoryFormat;
  line["run"] = id;
  line["started_utc"] = run.started_utc;
  line["commit"] = environment_text(run, "tool", "git_revision");
  return line;
}

/// Returns the text under `key`; empty where this form of line has no such key.
std::string text_or_empty(const ReportJson& line, const char* key) {
  return line.contains(key) ? field<std::string>(line, key) : std::string();
}

std::vector<std::string> identity(const HistorySeries& series) {
  return {series.metric, series.case_text, series.grid,      series.implementation, series.backend,
          series.phase,  series.cache,     series.reference, series.machine};
}

/// True if `line` may be a truncated history record.
bool may_be_cut_off(std::string_view line) {
  const std::string begin = fmt::format(R"({{"schema":"{}")", kHistoryFormat);
  const std::size_t common = std::min(line.size(), begin.size());
  return line.substr(0, common) == begin.substr(0, common);
}

class SeriesByIdentity {
 public:
  void add(const ReportJson& line) {
    require_history_format(line);
    HistorySeries series;
    series.case_text = field<std::string>(line, "case");
    series.grid = field<std::string>(line, "grid");
    series.implementation = field<std::string>(line, "implementation");
    series.backend = text_or_empty(line, "backend");
    series.phase = text_or_empty(line, "phase");
    series.cache = text_or_empty(line, "cache");
    series.reference = text_or_empty(line, "reference");
    series.machine = text_or_empty(line, "machine");
    HistoryPoint point;
    point.run = {.id = field<std::string>(line, "run"),
                 .started_utc = field<std::string>(line, "started_utc"),
                 .commit = field<std::string>(line, "commit")};
    if (line.contains(kTime)) {
      point.value = field<double>(line, kTime);
      if (!(point.value > 0)) throw_bad_input("'{}' must be above 0", kTime);
      point.stderr_ratio = optional_field(line, "stderr_ratio");
      add(series, kTime, point);
      return;
    }
    for (const char* counter : kCounters) {
      point.value = field<double>(line, counter);
      add(series, counter, point);
    }
  }

  std::vector<HistorySeries> take() {
    for (HistorySeries& series : all_) {
      std::stable_sort(series.points.begin(), series.points.end(),
                       [](const HistoryPoint& a, const HistoryPoint& b) {
                         return a.run.started_utc < b.run.started_utc;
                       });
    }
    return std::move(all_);
  }

 private:
  static void require_history_format(const ReportJson& line) {
    const auto format = field<std::string>(line, "schema");
    if (format != kHistoryFormat) {
      throw_bad_input("it has the format '{}', this lossgrid reads '{}'", format, kHistoryFormat);
    }
  }

  void add(HistorySeries series, const char* metric, const HistoryPoint& point) {
    series.metric = metric;
    const auto [at, is_new] = places_.emplace(identity(series), all_.size());
    if (is_new) all_.push_back(std::move(series));
    std::vector<HistoryPoint>& points = all_[at->second].points;
    // A suite may hold a case twice.
    if (points.empty() || points.back().run.id != point.run.id) points.push_back(point);
  }

  std::map<std::vector<std::string>, std::size_t> places_;
  std::vector<HistorySeries> all_;
};

}  // namespace

std::string history_lines(const RunRecord& run) {
  const std::string id = run_id(run);
  std::string lines;
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      const std::optional<RelativeTime> time = relative_time(timing, row);
      if (!time) continue;
      ReportJson line = line_of(run, id);
      line["case"] = timing.case_text;
      line["grid"] = timing.grid;
      line["implementation"] = row.implementation;
      if (timing.backend != "cpu") line["backend"] = timing.backend;
      line["phase"] = row.phase;
      line["cache"] = timing.cache;
      line["reference"] = time->reference;
      line["machine"] = machine_of(run);
      line[kTime] = time->ratio;
      line["stderr_ratio"] = time->stderr_ratio;
      line["median_ns"] = row.time.median_ns;
      lines += json_text(line, -1) + '\n';
    }
  }
  for (const TrialRecord& trial : run.trials) {
    if (trial.status != TrialStatus::passed) continue;
    ReportJson line = line_of(run, id);
    line["case"] = case_text(trial);
    line["grid"] = trial.grid();
    line["implementation"] = trial.implementation;
    line["backend"] = trial.backend;
    line["peak_bytes"] = trial.max_peak_bytes();
    line["payload_bytes"] = trial.total_payload_bytes();
    line["calls"] = trial.total_calls();
    lines += json_text(line, -1) + '\n';
  }
  return lines;
}

std::vector<HistorySeries> history_series(std::string_view text) {
  SeriesByIdentity series;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos && may_be_cut_off(text)) break;
    const ReportJson line = ReportJson::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    try {
      if (line.is_discarded()) throw_bad_input("it is no JSON");
      series.add(line);
    } catch (const Error& error) {
      throw_bad_input("line {}: {}", number, error.what());
    }
  }
  return series.take();
}

std::vector<HistorySeries> read_history(const std::string& path) {
  const std::string text = read_text_file(path);
  try {
    return history_series(text);
  } catch (const Error& error) {
    throw_bad_input("{}: {}", path, error.what());
  }
}

std::size_t append_history(const std::string& path, const RunRecord& run) {
  const std::string lines = history_lines(run);
  if (lines.empty()) throw_bad_input("the report has no timed row and no passed trial");
  if (std::filesystem::exists(path)) {
    const std::string id = run_id(run);
    for (const HistorySeries& series : read_history(path)) {
      for (const HistoryPoint& point : series.points) {
        if (point.run.id == id) return 0;
      }
    }
  }
  append_lines_to_file(path, lines);
  return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
}

}  // namespace lossgrid
