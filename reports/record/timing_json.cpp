// SPDX-License-Identifier: Apache-2.0
// The JSON form of a timing record. Samples are kept, of the slowest rank and of every rank, so
// that whoever reads a report can summarise them another way.
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "reports/record/timing_record.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json count_or_null(std::int64_t count) {
  return count > 0 ? Json(count) : Json(nullptr);
}

void add_summary(const TimeSummary& time, Json& out) {
  out["samples_ns"] = time.samples_ns;
  out["median_ns"] = time.median_ns;
  out["p20_ns"] = time.p20_ns;
  out["p80_ns"] = time.p80_ns;
  out["stderr_ratio"] = or_null(time.stderr_ratio);
}

Json rank_time_to_json(const RankTime& rank) {
  return {{"rank", rank.rank},
          {"median_ns", rank.median_ns},
          {"communication_ns", rank.communication_ns},
          {"kernel_ns", rank.kernel_ns},
          {"samples_ns", rank.samples_ns},
          {"communication_samples_ns", rank.communication_samples_ns}};
}

Json straggler_to_json(const std::optional<Straggler>& straggler) {
  if (!straggler) return nullptr;
  return {{"rank", straggler->rank},
          {"kernel_ns", straggler->kernel_ns},
          {"excess_ns", straggler->excess_ns}};
}

Json row_to_json(const TimingRow& row) {
  Json out;
  out["implementation"] = row.implementation;
  out["phase"] = row.phase;
  out["status"] = name(row.status);
  out["reason"] = row.reason;
  add_summary(row.time, out);
  out["speedup"] = or_null(row.speedup);
  out["rank_bytes"] = count_or_null(row.rank_bytes);
  out["rank_flops"] = count_or_null(row.rank_flops);
  out["bytes_per_second"] = or_null(row.bytes_per_second);
  out["flops_per_second"] = or_null(row.flops_per_second);
  out["useful_flops_per_second"] = or_null(row.useful_flops_per_second);
  out["tokens_per_second"] = row.tokens_per_second;
  out["ceiling"] = row.ceiling.empty() ? Json(nullptr) : Json(row.ceiling);
  out["ceiling_ratio"] = or_null(row.ceiling_ratio);
  out["ceiling_judged"] = row.ceiling_judged;
  out["communication_ratio"] = or_null(row.communication_ratio);
  out["rank_times"] = Json::array();
  for (const RankTime& rank : row.rank_times) out["rank_times"].push_back(rank_time_to_json(rank));
  out["straggler"] = straggler_to_json(row.straggler);
  out["kernel_launches"] = row.kernel_launches;
  out["host_synchronisations"] = row.host_synchronisations;
  return out;
}

Json ceiling_to_json(const CeilingRow& ceiling) {
  Json out;
  out["name"] = ceiling.name;
  add_summary(ceiling.time, out);
  out["rank_bytes"] = count_or_null(ceiling.rank_bytes);
  out["rank_flops"] = count_or_null(ceiling.rank_flops);
  out["rate_per_second"] = ceiling.rate_per_second;
  return out;
}

}  // namespace

std::string timing_id(const std::string& case_text, const std::string& grid,
                      const std::string& cache, const std::string& backend) {
  const std::string id = fmt::format("{}|{}|{}|timing", case_text, grid, cache);
  return backend == "cpu" ? id : id + "|" + backend;
}

Json timing_to_json(const TimingRecord& record) {
  Json out;
  out["case"]["name"] = record.case_name;
  out["case"]["text"] = record.case_text;
  out["grid"] = record.grid;
  out["cache"] = record.cache;
  out["backend"] = record.backend;
  out["transport"] = record.transport;
  if (!record.timer.empty()) out["timer"] = record.timer;
  out["baseline"] = record.baseline;
  out["no_speedup_reason"] = record.why_no_speedup;
  out["status"] = name(record.status);
  out["reason"] = record.reason;
  out["representative"] = record.why_not_representative.empty();
  out["representative_reason"] = record.why_not_representative;
  out["cores"] = record.cores;
  out["threads_per_rank"] = record.threads_per_rank;
  out["last_level_cache_bytes"] = record.last_level_cache_bytes;
  out["order_seed"] = record.order_seed;
  out["min_samples"] = record.min_samples;
  out["max_seconds"] = record.max_seconds;
  out["target_stderr_ratio"] = record.target_stderr_ratio;
  out["warm_up_rounds"] = record.warm_up_rounds;
  out["rounds"] = record.rounds;
  out["stopped_by"] = record.stopped_by.empty() ? Json(nullptr) : Json(record.stopped_by);
  out["tokens"] = record.tokens;
  if (!record.padding.empty()) out["padding"] = record.padding;
  out["useful_flops"] = record.useful_flops;
  for (const char* list : {"rows", "skipped", "ceilings"}) out[list] = Json::array();
  for (const TimingRow& row : record.rows) out["rows"].push_back(row_to_json(row));
  for (const SkippedTiming& skipped : record.skipped) {
    out["skipped"].push_back(
        {{"implementation", skipped.implementation}, {"reason", skipped.reason}});
  }
  for (const CeilingRow& ceiling : record.ceilings) {
    out["ceilings"].push_back(ceiling_to_json(ceiling));
  }
  out["ceiling_details"] = record.ceiling_details;
  out["all_reduce"] = Json::array();
  for (const AllReduceRow& row : record.all_reduce) {
    out["all_reduce"].push_back({{"group", row.group},
                                 {"ranks", row.ranks},
                                 {"latency_ns", row.latency_ns},
                                 {"bytes_per_second", row.bytes_per_second}});
  }
  return out;
}

Json meter_to_json(const MeterRecord& record) {
  return {{"name", record.name},         {"passed", record.passed}, {"expected", record.expected},
          {"measured", record.measured}, {"unit", record.unit},     {"detail", record.detail}};
}

}  // namespace lossgrid
