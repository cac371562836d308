// SPDX-License-Identifier: Apache-2.0
// The way back of timing_json.cpp.
#include "reports/record/json_fields.h"
#include "reports/record/report_reader.h"

namespace lossgrid {
namespace {

TimingStatus timing_status(const ReportJson& json) {
  const auto text = field<std::string>(json, "status");
  for (const TimingStatus status : timing_statuses()) {
    if (name(status) == text) return status;
  }
  throw_bad_input("unknown status '{}' of a timing", text);
}

TimeSummary summary_from(const ReportJson& json) {
  TimeSummary time;
  time.samples_ns = field<std::vector<std::int64_t>>(json, "samples_ns");
  time.median_ns = field<std::int64_t>(json, "median_ns");
  time.p20_ns = field<std::int64_t>(json, "p20_ns");
  time.p80_ns = field<std::int64_t>(json, "p80_ns");
  time.stderr_ratio = ratio_field(json, "stderr_ratio");
  return time;
}

RankTime rank_time_from(const ReportJson& json) {
  RankTime rank;
  rank.rank = field<std::int64_t>(json, "rank");
  rank.median_ns = field<std::int64_t>(json, "median_ns");
  rank.communication_ns = field<std::int64_t>(json, "communication_ns");
  rank.kernel_ns = field<std::int64_t>(json, "kernel_ns");
  rank.samples_ns = field<std::vector<std::int64_t>>(json, "samples_ns");
  rank.communication_samples_ns =
      field<std::vector<std::int64_t>>(json, "communication_samples_ns");
  return rank;
}

std::optional<Straggler> straggler_from(const ReportJson& json) {
  if (json.is_null()) return std::nullopt;
  return Straggler{field<std::int64_t>(json, "rank"), field<std::int64_t>(json, "kernel_ns"),
                   field<std::int64_t>(json, "excess_ns")};
}

TimingRow row_from(const ReportJson& json) {
  TimingRow row;
  row.implementation = field<std::string>(json, "implementation");
  row.phase = field<std::string>(json, "phase");
  row.status = timing_status(json);
  row.reason = field<std::string>(json, "reason");
  row.time = summary_from(json);
  row.speedup = optional_field(json, "speedup");
  row.rank_bytes = field_or<std::int64_t>(json, "rank_bytes", 0);
  row.rank_flops = field_or<std::int64_t>(json, "rank_flops", 0);
  row.bytes_per_second = optional_field(json, "bytes_per_second");
  row.flops_per_second = optional_field(json, "flops_per_second");
  row.useful_flops_per_second = optional_field(json, "useful_flops_per_second");
  row.tokens_per_second = number_field(json, "tokens_per_second");
  row.ceiling = field_or<std::string>(json, "ceiling", "");
  row.ceiling_ratio = optional_field(json, "ceiling_ratio");
  row.ceiling_judged = field<bool>(json, "ceiling_judged");
  row.communication_ratio = optional_field(json, "communication_ratio");
  row.rank_times = list_field(json, "rank_times", rank_time_from);
  row.straggler = straggler_from(member(json, "straggler"));
  row.kernel_launches = field_if_there<std::int64_t>(json, "kernel_launches", 0);
  row.host_synchronisations = field_if_there<std::int64_t>(json, "host_synchronisations", 0);
  return row;
}

CeilingRow ceiling_from(const ReportJson& json) {
  CeilingRow ceiling;
  ceiling.name = field<std::string>(json, "name");
  ceiling.time = summary_from(json);
  ceiling.rank_bytes = field_or<std::int64_t>(json, "rank_bytes", 0);
  ceiling.rank_flops = field_or<std::int64_t>(json, "rank_flops", 0);
  ceiling.rate_per_second = number_field(json, "rate_per_second");
  return ceiling;
}

SkippedTiming skipped_from(const ReportJson& json) {
  return {field<std::string>(json, "implementation"), field<std::string>(json, "reason")};
}

AllReduceRow all_reduce_from(const ReportJson& json) {
  return {field<std::string>(json, "group"), field<std::int64_t>(json, "ranks"),
          number_field(json, "latency_ns"), number_field(json, "bytes_per_second")};
}

}  // namespace

TimingRecord timing_from_json(const ReportJson& json) {
  TimingRecord record;
  record.case_name = field<std::string>(member(json, "case"), "name");
  record.case_text = field<std::string>(member(json, "case"), "text");
  record.grid = field<std::string>(json, "grid");
  record.cache = field<std::string>(json, "cache");
  record.backend = field_if_there<std::string>(json, "backend", "cpu");
  record.transport = field_if_there<std::string>(json, "transport", "thread");
  record.timer = field_if_there<std::string>(json, "timer", "");
  record.baseline = field<std::string>(json, "baseline");
  record.why_no_speedup = field<std::string>(json, "no_speedup_reason");
  record.status = timing_status(json);
  record.reason = field<std::string>(json, "reason");
  record.why_not_representative = field<std::string>(json, "representative_reason");
  record.cores = field<std::int64_t>(json, "cores");
  record.threads_per_rank = field<std::int64_t>(json, "threads_per_rank");
  record.last_level_cache_bytes = field<std::int64_t>(json, "last_level_cache_bytes");
  record.order_seed = field<std::uint64_t>(json, "order_seed");
  record.min_samples = field<std::int64_t>(json, "min_samples");
  record.max_seconds = field<double>(json, "max_seconds");
  record.target_stderr_ratio = field<double>(json, "target_stderr_ratio");
  record.warm_up_rounds = field<std::int64_t>(json, "warm_up_rounds");
  record.rounds = field<std::int64_t>(json, "rounds");
  record.stopped_by = field_or<std::string>(json, "stopped_by", "");
  record.tokens = field<std::int64_t>(json, "tokens");
  record.padding = field_if_there<std::string>(json, "padding", "");
  record.useful_flops = field<double>(json, "useful_flops");
  record.rows = list_field(json, "rows", row_from);
  record.skipped = list_field(json, "skipped", skipped_from);
  record.ceilings = list_field(json, "ceilings", ceiling_from);
  record.ceiling_details = field<std::string>(json, "ceiling_details");
  record.all_reduce = list_field(json, "all_reduce", all_reduce_from);
  return record;
}

}  // namespace lossgrid
