// SPDX-License-Identifier: Apache-2.0
// Exporter "github-action-benchmark": the array of that action's tool customSmallerIsBetter. It has
// the median time of each valid row of a timing, and the peak memory and largest error, as share of
// the bound, of each trial that passed. The action refuses the empty array of a run without any.
#include <string>

#include <fmt/format.h>

#include "reports/exports/export_parts.h"
#include "reports/exports/exporter.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

Json entry_of(const std::string& name, const char* unit, Json value) {
  return {{"name", name}, {"unit", unit}, {"value", std::move(value)}};
}

std::string github_action_benchmark_text(const RunRecord& run) {
  Json out = Json::array();
  UniqueNames unique;
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      if (row.status != TimingStatus::timed) continue;
      const double ms = static_cast<double>(row.time.median_ns) / 1e6;
      Json entry = entry_of(unique(timing_name(timing, row) + " time"), "ms", ms);
      // The action rescales a range of this form together with its value.
      entry["range"] = fmt::format("± {:.3g}", ms * row.time.stderr_ratio);
      entry["extra"] =
          fmt::format("n={}, 20..80 %: {}..{} ms", row.time.samples_ns.size(),
                      format_milliseconds(row.time.p20_ns), format_milliseconds(row.time.p80_ns));
      if (row.speedup) {
        entry["extra"] = entry["extra"].get<std::string>() +
                         fmt::format(", {:.2f}x as fast as {}", *row.speedup, timing.baseline);
      }
      out.push_back(std::move(entry));
    }
  }
  for (const TrialRecord& trial : run.trials) {
    if (trial.status != TrialStatus::passed) continue;
    const std::string name = unique(trial_name(trial));
    out.push_back(entry_of(name + " peak memory", "bytes", trial.max_peak_bytes()));
    out.push_back(entry_of(name + " error / bound", "ratio", trial.max_ratio()));
  }
  return json_text(out) + '\n';
}

const RegisteredExporter registered_github_action_benchmark{
    {"github-action-benchmark",
     "array for customSmallerIsBetter of github-action-benchmark: time, memory, error",
     github_action_benchmark_text}};

}  // namespace
}  // namespace lossgrid
