// SPDX-License-Identifier: Apache-2.0
// Rows for all_benchmark_data.csv of Liger-Kernel (benchmark/scripts/utils.py), which its
// visualizer draws: kernel lossgrid_OBJECTIVE, provider the implementation, x the tokens B x T.
// speed is in ms from the 20th to the 80th percentile, modes forward, backward and full; memory in
// MB (2^20 bytes) with inputs, three times the same number, for it is counted and not sampled.
// Case, grid and cache stand in extra_benchmark_config_str; the version is lossgrid's.
#include <algorithm>
#include <string>
#include <vector>

#include "harness/core/text.h"
#include "reports/export_parts.h"
#include "reports/exporter.h"
#include "reports/report_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

/// Of "objective=dpo lens=5+8"; "nll" is what a case has that does not say.
std::string objective_of(const std::string& case_text) {
  constexpr std::string_view kKey = "objective=";
  for (const std::string& word : split(case_text, ' ')) {
    if (word.starts_with(kKey)) return word.substr(kKey.size());
  }
  return "nll";
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
                                          row.mode,
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
    for (const TimingRow& row : timing.rows) {
      if (row.status != TimingStatus::timed) continue;
      lines.add({timing.case_text,
                 row.implementation,
                 row.phase == "forward_backward" ? "full" : row.phase,
                 "speed",
                 "ms",
                 timing.tokens,
                 milliseconds(row.time.median_ns),
                 milliseconds(row.time.p20_ns),
                 milliseconds(row.time.p80_ns),
                 {{"case", timing.case_text}, {"grid", timing.grid}, {"cache", timing.cache}}});
    }
  }
  for (const TrialRecord& trial : run.trials) {
    if (trial.status != TrialStatus::passed || trial.memory.empty()) continue;
    std::int64_t bytes = 0;
    for (const PhaseMemoryRecord& phase : trial.memory) {
      bytes = std::max(bytes, phase.measured_peak_with_inputs_bytes);
    }
    const double mb = static_cast<double>(bytes) / (1 << 20);
    lines.add({case_text(trial),
               trial.implementation,
               "full",
               "memory",
               "MB",
               trial.tokens,
               mb,
               mb,
               mb,
               {{"case", case_text(trial)}, {"grid", trial.grid()}}});
  }
  return lines.text();
}

const RegisteredExporter registered{
    {"csv-liger", "rows for Liger-Kernel's all_benchmark_data.csv and its visualizer",
     csv_liger_text}};

}  // namespace
}  // namespace lossgrid
