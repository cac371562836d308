// SPDX-License-Identifier: Apache-2.0
// Exporter "gbench": JSON of Google Benchmark (schema version 1), for its compare.py and for
// dashboards that read it. Every sample of a timing is a repetition with one iteration. There are
// no aggregates, which some readers take for benchmarks. Rows without a valid time are left out.
// CPU time is not measured: cpu_time repeats real_time, and names end in /real_time, which readers
// know.
#include <string>

#include "reports/exports/export_parts.h"
#include "reports/exports/exporter.h"
#include "reports/file/report_json.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

Json context_of(const RunRecord& run) {
  const std::string cpus = environment_text(run, "host", "cpus");
  const bool debug = environment_text(run, "tool", "build_type") == "Debug";
  Json context;
  context["date"] = run.started_utc;
  context["host_name"] = "";  // reports do not have it
  context["executable"] = "lossgrid";
  context["num_cpus"] = cpus.empty() ? Json(0) : run.environment["host"]["cpus"];
  context["mhz_per_cpu"] = 0;  // not known
  context["caches"] = Json::array();
  context["load_avg"] = Json::array();
  context["library_build_type"] = debug ? "debug" : "release";
  context["json_schema_version"] = 1;
  context["cpu_model"] = environment_text(run, "host", "cpu_model");
  context["lossgrid_version"] = environment_text(run, "tool", "version");
  context["git_revision"] = environment_text(run, "tool", "git_revision");
  return context;
}

/// Returns the members that all repetitions of a row share.
Json repetition_of(const std::string& name, int family, std::size_t samples, const TimingRow& row) {
  Json entry;
  entry["name"] = name;
  entry["family_index"] = family;
  entry["per_family_instance_index"] = 0;
  entry["run_name"] = name;
  entry["run_type"] = "iteration";
  entry["repetitions"] = samples;
  entry["repetition_index"] = 0;
  entry["threads"] = row.rank_times.size();
  entry["iterations"] = 1;
  entry["real_time"] = 0;
  entry["cpu_time"] = 0;
  entry["time_unit"] = "ns";
  return entry;
}

std::string gbench_text(const RunRecord& run) {
  Json out;
  out["context"] = context_of(run);
  out["benchmarks"] = Json::array();
  UniqueNames unique;
  int family = 0;
  for (const TimingRecord& timing : run.timings) {
    for (const TimingRow& row : timing.rows) {
      if (row.status != TimingStatus::timed) continue;
      const std::string name = unique("trial/" + timing_name(timing, row)) + "/real_time";
      Json entry = repetition_of(name, family++, row.time.samples_ns.size(), row);
      for (std::size_t k = 0; k < row.time.samples_ns.size(); ++k) {
        entry["repetition_index"] = k;
        entry["real_time"] = entry["cpu_time"] = row.time.samples_ns[k];
        // An item is a token.
        const auto ns = static_cast<double>(row.time.samples_ns[k]);
        entry["items_per_second"] = ns > 0 ? static_cast<double>(timing.tokens) / ns * 1e9 : 0.0;
        out["benchmarks"].push_back(entry);
      }
    }
  }
  return json_text(out) + '\n';
}

const RegisteredExporter registered_gbench{
    {"gbench", "JSON of Google Benchmark, all samples: compare.py, Bencher, Conbench",
     gbench_text}};

}  // namespace
}  // namespace lossgrid
