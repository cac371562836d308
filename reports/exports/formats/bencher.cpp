// SPDX-License-Identifier: Apache-2.0
// Exporter "bencher": Bencher Metric Format {benchmark: {measure: {value, lower_value,
// upper_value}}}, for the adapter `json`. latency is in nanoseconds, as Bencher defines it, from
// the 20th to the 80th percentile; peak_bytes and error_ratio (error / bound) come from trials that
// passed.
#include <string>

#include "reports/exports/export_parts.h"
#include "reports/exports/exporter.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

std::string bencher_text(const RunRecord& run) {
  Json out = Json::object();
  UniqueNames unique;
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      if (row.status != TimingStatus::timed) continue;
      out[unique(timing_name(timing, row))]["latency"] = {{"value", row.time.median_ns},
                                                          {"lower_value", row.time.p20_ns},
                                                          {"upper_value", row.time.p80_ns}};
    }
  }
  for (const TrialRecord& trial : run.trials) {
    if (trial.status != TrialStatus::passed) continue;
    Json& measures = out[unique(trial_name(trial))];
    measures["peak_bytes"] = {{"value", trial.max_peak_bytes()}};
    measures["error_ratio"] = {{"value", trial.max_ratio()}};
  }
  return json_text(out) + '\n';
}

const RegisteredExporter registered_bencher{
    {"bencher", "Bencher Metric Format, adapter json: latency, peak memory, error", bencher_text}};

}  // namespace
}  // namespace lossgrid
