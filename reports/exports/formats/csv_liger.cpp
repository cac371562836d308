// SPDX-License-Identifier: Apache-2.0
// Exporter "csv-liger": rows for all_benchmark_data.csv of Liger-Kernel
// (benchmark/scripts/utils.py), which its visualizer draws: one chart a kernel, metric, mode and
// extra_benchmark_config_str, one curve a provider, one point a row. The kernel is
// lossgrid_OBJECTIVE, the provider the implementation, x the number of tokens B x T. The extra
// config has grid, cache and the keys of the case without its lengths, so that cases that differ in
// length alone are one curve. speed is in ms from the 20th to the 80th percentile, modes forward,
// backward and full; memory is in MB (2^20 bytes) with inputs, three times the same number, since
// it is counted and not sampled. The version is lossgrid's.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/text.h"
#include "reports/exports/export_parts.h"
#include "reports/exports/exporter.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

std::string field(const std::string& text_of_report) {
  const std::string text = escape_controls(text_of_report);
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

/// Parses a case of words "KEY=VALUE". A text of another form becomes the value of the key `case`.
std::vector<std::pair<std::string, std::string>> keys_of(const std::string& case_text) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const std::string& word : split(case_text, ' ')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return {{"case", case_text}};
    keys.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return keys;
}

/// Returns the objective of a case; "nll" when it names none.
std::string objective_of(const std::string& case_text) {
  for (const auto& [key, value] : keys_of(case_text)) {
    if (key == "objective") return value;
  }
  return "nll";
}

/// Returns {"seqs": "2", "vocab": "96"} for "lens=5+8 vocab=96". Where lengths are drawn from a
/// distribution, its name stays and the longest length is left out.
Json config_of(const std::string& case_text, const std::string& grid) {
  Json config = Json::object();
  for (const auto& [key, value] : keys_of(case_text)) {
    if (key == "objective" || key == "seq_len") continue;
    const bool is_list =
        key == "lens" && value.find_first_not_of("0123456789+") == std::string::npos;
    if (is_list) {
      config["seqs"] = std::to_string(1 + std::count(value.begin(), value.end(), '+'));
    } else {
      config[key] = value;
    }
  }
  config["grid"] = grid;
  return config;
}

struct Row {
  std::string case_text;
  std::string implementation;
  std::string mode;
  std::string metric;
  std::string unit;
  std::int64_t tokens = 0;
  double y_50 = 0, y_20 = 0, y_80 = 0;
  Json config;
};

class Lines {
 public:
  explicit Lines(const RunRecord& run)
      : machine_(environment_text(run, "host", "cpu_model")),
        timestamp_(run.started_utc.substr(0, run.started_utc.find('Z'))),
        version_("lossgrid " + environment_text(run, "tool", "version")) {
    std::replace(timestamp_.begin(), timestamp_.end(), 'T', ' ');
  }

  void add(const Row& row) {
    const std::vector<std::string> fields{field("lossgrid_" + objective_of(row.case_text)),
                                          field(row.implementation),
                                          field(row.mode),
                                          row.metric,
                                          row.unit,
                                          "BT",
                                          "B x T",
                                          std::to_string(row.tokens),
                                          format_number(row.y_50),
                                          format_number(row.y_20),
                                          format_number(row.y_80),
                                          field(json_text(row.config, -1)),
                                          field(machine_),
                                          field(timestamp_),
                                          field(version_)};
    text_ += join(fields, ",") + '\n';
  }
  const std::string& text() const { return text_; }

 private:
  std::string machine_;
  std::string timestamp_;
  std::string version_;
  std::string text_ =
      "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,"
      "x_value,y_value_50,y_value_20,y_value_80,extra_benchmark_config_str,gpu_name,timestamp,"
      "liger_version\n";
};

double milliseconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

std::string csv_liger_text(const RunRecord& run) {
  Lines lines(run);
  for (const TimingRecord& timing : run.timings) {
    Json config = config_of(timing.case_text, timing.grid);
    config["cache"] = timing.cache;
    for (const TimingRow& row : timing.rows) {
      if (row.status != TimingStatus::timed) continue;
      lines.add({.case_text = timing.case_text,
                 .implementation = row.implementation,
                 .mode = row.phase == "forward_backward" ? "full" : row.phase,
                 .metric = "speed",
                 .unit = "ms",
                 .tokens = timing.tokens,
                 .y_50 = milliseconds(row.time.median_ns),
                 .y_20 = milliseconds(row.time.p20_ns),
                 .y_80 = milliseconds(row.time.p80_ns),
                 .config = config});
    }
  }
  for (const TrialRecord& trial : run.trials) {
    if (trial.status != TrialStatus::passed || trial.memory.empty()) continue;
    std::int64_t bytes = 0;
    for (const PhaseMemoryRecord& phase : trial.memory) {
      bytes = std::max(bytes, phase.measured_peak_with_inputs_bytes);
    }
    const double mb = static_cast<double>(bytes) / (1 << 20);
    lines.add({.case_text = case_text(trial),
               .implementation = trial.implementation,
               .mode = "full",
               .metric = "memory",
               .unit = "MB",
               .tokens = trial.tokens,
               .y_50 = mb,
               .y_20 = mb,
               .y_80 = mb,
               .config = config_of(case_text(trial), trial.grid())});
  }
  return lines.text();
}

const RegisteredExporter registered_csv_liger{
    {"csv-liger", "rows for Liger-Kernel's all_benchmark_data.csv and its visualizer",
     csv_liger_text}};

}  // namespace
}  // namespace lossgrid
