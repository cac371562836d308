// SPDX-License-Identifier: Apache-2.0
#include "reports/record/report_json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reports/text/chunk_table.h"
#include "reports/text/memory_table.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN and no infinity.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

/// -1 stands for "does not apply" in records, null in reports.
Json index_or_null(std::int64_t value) {
  return value < 0 ? Json(nullptr) : Json(value);
}

Json number_or_null(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json object_of(const Json& value) {
  return value.is_object() ? value : Json::object();
}

template <typename Record, typename F>
Json array_of(const std::vector<Record>& records, F&& convert) {
  Json out = Json::array();
  for (const Record& record : records) out.push_back(convert(record));
  return out;
}

template <typename Map>
Json object_from(const Map& map) {
  Json out = Json::object();
  for (const auto& [key, value] : map) out[key] = value;
  return out;
}

Json worst_to_json(const std::optional<WorstElement>& worst) {
  if (!worst) return nullptr;
  Json out;
  out["rank"] = worst->rank;
  out["sequence"] = index_or_null(worst->sequence);
  out["token"] = index_or_null(worst->token);
  out["vocab_id"] = index_or_null(worst->vocab_id);
  out["got"] = number(worst->got);
  out["want"] = number(worst->want);
  return out;
}

Json check_to_json(const CheckRecord& check) {
  Json out;
  out["name"] = check.name;
  out["passed"] = check.passed && std::isfinite(check.ratio);
  out["ratio"] = number(check.ratio);
  out["error_abs"] = number(check.error_abs);
  out["bound_abs"] = number(check.bound_abs);
  out["compared"] = check.compared;
  out["beyond_bound"] = check.beyond_bound;
  out["worst"] = worst_to_json(check.worst);
  return out;
}

Json invariant_to_json(const InvariantRecord& invariant) {
  Json out;
  out["name"] = invariant.name;
  out["status"] = invariant.status;
  out["detail"] = invariant.detail;
  return out;
}

Json determinism_to_json(const DeterminismRecord& record) {
  Json out;
  out["name"] = record.name;
  out["verdict"] = record.verdict;
  out["claimed"] = record.claimed;
  out["detail"] = record.detail;
  return out;
}

Json communication_to_json(const CommunicationRecord& record) {
  Json out;
  out["rank"] = record.rank;
  out["phase"] = record.phase;
  out["group"] = record.group;
  out["operation"] = record.operation;
  out["predicted_calls"] = number_or_null(record.predicted_calls);
  out["measured_calls"] = record.measured_calls;
  out["predicted_payload_bytes"] = number_or_null(record.predicted_payload_bytes);
  out["measured_payload_bytes"] = record.measured_payload_bytes;
  return out;
}

Json time_to_json(const PhaseTimeRecord& record) {
  Json out;
  out["phase"] = record.phase;
  out["max_over_ranks_ns"] = record.max_over_ranks_ns;
  out["predicted_flops"] = record.predicted_flops;
  out["kernel_launches"] = record.kernel_launches;
  out["host_synchronisations"] = record.host_synchronisations;
  return out;
}

Json rank_to_json(const RankRecord& record) {
  Json out;
  out["rank"] = record.rank;
  out["state"] = record.state;
  out["phase"] = text_or_null(record.phase);
  out["message"] = record.message;
  out["collectives"] = record.collectives;
  if (!record.detail.empty()) out["detail"] = record.detail;
  return out;
}

Json metrics_to_json(const std::map<std::string, std::optional<double>>& metrics) {
  Json out = Json::object();
  for (const auto& [key, value] : metrics) out[key] = value ? number(*value) : Json(nullptr);
  return out;
}

Json numbers_to_json(const std::map<std::string, double>& numbers) {
  Json out = Json::object();
  for (const auto& [key, value] : numbers) out[key] = number(value);
  return out;
}

Json chunk_error_to_json(const ChunkErrorRow& row) {
  Json out;
  out["case"] = row.case_title;
  out["chunks"] = row.chunks;
  out["implementation"] = row.implementation;
  out["relative_l2"] = number(row.relative_l2);
  out["ratio"] = number(row.ratio);
  return out;
}

Json summary_to_json(const RunRecord& run) {
  const std::map<std::string, std::int64_t> counts = run.counts_by_status();
  Json out;
  out["trials"] = run.trials.size();
  for (const TrialStatus status : trial_statuses()) {
    const std::string key(name(status));
    out[key] = counts.at(key);
  }
  return out;
}

Json score_to_json(const MutationScore& score) {
  Json out;
  out["rejected"] = score.rejected;
  out["total"] = score.total;
  out["controls_accepted"] = score.controls_accepted;
  out["controls_total"] = score.controls_total;
  return out;
}

void remove_volatile(Json& json) {
  if (json.is_object()) {
    for (const std::string& key : volatile_keys()) json.erase(key);
  }
  if (json.is_structured()) {
    for (Json& value : json) remove_volatile(value);
  }
}

Json stages_to_json(const RunRecord& run) {
  if (run.wall_ns == 0) return nullptr;
  Json out;
  for (std::size_t k = 0; k < kStages; ++k) {
    out[std::string(name(static_cast<Stage>(k)))] = run.stages.ns[k];
  }
  out["other"] = std::max<std::int64_t>(0, run.wall_ns - run.stages.total());
  return out;
}

}  // namespace

Json memory_ratio_to_json(const MemoryRatioRow& row) {
  Json out;
  out["case"] = row.case_title;
  out["grid"] = row.grid;
  out["implementation"] = row.implementation;
  out["measured_bytes"] = row.measured_bytes;
  out["predicted_bytes"] = row.predicted_bytes;
  out["measured_ratio"] = number(row.measured_ratio);
  out["predicted_ratio"] = number(row.predicted_ratio);
  return out;
}

Json memory_to_json(const PhaseMemoryRecord& record) {
  Json out;
  out["rank"] = record.rank;
  out["phase"] = record.phase;
  out["predicted_peak_bytes"] = number_or_null(record.predicted_peak_bytes);
  out["measured_peak_bytes"] = record.measured_peak_bytes;
  out["measured_peak_with_inputs_bytes"] = record.measured_peak_with_inputs_bytes;
  out["measured_allocations"] = record.measured_allocations;
  out["by_tag_bytes"] = object_from(record.by_tag_bytes);
  if (record.device_used_bytes) out["device_used_bytes"] = *record.device_used_bytes;
  if (record.device_other_bytes) out["device_other_bytes"] = *record.device_other_bytes;
  return out;
}

Json trial_to_json(const TrialRecord& trial) {
  return trial_to_json(trial, array_of(trial.memory, memory_to_json));
}

Json trial_to_json(const TrialRecord& trial, Json memory) {
  Json out;
  out["id"] = trial.id;
  out["case"]["name"] = trial.case_name;
  out["case"]["parameters"] = object_of(trial.case_parameters);
  out["grid"]["tp"] = trial.tp;
  out["grid"]["cp"] = trial.cp;
  out["grid"]["dp"] = trial.dp;
  out["grid"]["pp"] = trial.pp;
  out["grid"]["sp"] = trial.sp;
  out["implementation"] = trial.implementation;
  out["details"] = object_from(trial.details);
  out["backend"] = trial.backend;
  out["transport"] = trial.transport;
  out["status"] = name(trial.status);
  out["reason"] = trial.reason;
  out["explanation"] = trial.explanation;
  out["first_failed_rank"] = index_or_null(trial.first_failed_rank);
  out["rank_states"] = array_of(trial.ranks, rank_to_json);
  out["batch"]["tokens"] = trial.tokens;
  out["batch"]["padded_tokens"] = trial.padded_tokens;
  out["batch"]["valid_tokens"] = trial.valid_tokens;
  out["batch"]["microbatches"] = trial.microbatches;
  out["chunks"] = trial.chunks;
  out["metrics"] = metrics_to_json(trial.metrics);
  out["metric_reductions"] = object_from(trial.metric_reductions);
  out["branches"] = numbers_to_json(trial.branch_shares);
  out["checks"] = array_of(trial.checks, check_to_json);
  out["relative_l2"] = numbers_to_json(trial.relative_l2);
  out["gradient_scale"] = numbers_to_json(trial.gradient_scale);
  out["invariants"] = array_of(trial.invariants, invariant_to_json);
  out["determinism"] = array_of(trial.determinism, determinism_to_json);
  out["memory"] = std::move(memory);
  out["communication"] = array_of(trial.communication, communication_to_json);
  out["times"] = array_of(trial.times, time_to_json);
  out["fingerprints"] = object_from(trial.fingerprints);
  out["cost_mismatches"] = trial.cost_mismatches;
  out["reproduce"] = trial.reproduce;
  return out;
}

Json mutant_to_json(const MutantRecord& mutant) {
  Json out;
  out["name"] = mutant.name;
  out["catalogue_id"] = text_or_null(mutant.catalogue_id);
  out["what"] = mutant.what;
  out["is_control"] = mutant.is_control;
  out["trials"] = mutant.trials;
  out["rejected"] = mutant.rejected;
  if (mutant.rejected) {
    out["rejected_by"]["case"] = mutant.rejected_by_case;
    out["rejected_by"]["grid"] = mutant.rejected_by_grid;
    out["rejected_by"]["checks"] = mutant.rejected_by_checks;
  } else {
    out["rejected_by"] = nullptr;
  }
  out["reproduce"] = text_or_null(mutant.reproduce);
  return out;
}

Json run_header_to_json(const RunRecord& run) {
  Json out;
  out["schema"] = kReportFormat;
  out["run"]["command"] = run.command;
  out["run"]["arguments"] = run.arguments;
  out["run"]["suite"] = run.suite;
  out["run"]["started_utc"] = text_or_null(run.started_utc);
  out["run"]["ended_utc"] = text_or_null(run.ended_utc);
  out["run"]["status"] = run.status;
  out["run"]["exit_code"] = run.exit_code;
  out["run"]["stages_ns"] = stages_to_json(run);
  out["environment"] = object_of(run.environment);
  return out;
}

Json run_to_json(const RunRecord& run) {
  return run_to_json(
      run, array_of(run.trials, [](const TrialRecord& trial) { return trial_to_json(trial); }));
}

Json run_to_json(const RunRecord& run, Json trials) {
  Json out = run_header_to_json(run);
  out["summary"] = summary_to_json(run);
  out["trials"] = std::move(trials);
  out["tables"]["grad_weight_error_by_chunks"] =
      array_of(weight_error_by_chunks(run), chunk_error_to_json);
  out["tables"]["peak_memory"] = array_of(peak_memory_ratios(run), memory_ratio_to_json);
  out["timings"] = array_of(run.timings, timing_to_json);
  out["meter"] = array_of(run.meter, meter_to_json);
  if (run.command == "ab" || !run.ab.empty()) out["ab"] = array_of(run.ab, ab_to_json);
  if (run.command == "mutants") {
    out["mutants"] = array_of(run.mutants, mutant_to_json);
    out["score"] = score_to_json(run.mutation_score());
  }
  return out;
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

const std::vector<std::string>& volatile_keys() {
  static const std::vector<std::string> keys{"started_utc",
                                             "ended_utc",
                                             "stages_ns",
                                             "host",
                                             "details",
                                             "device_used_bytes",
                                             "device_other_bytes",
                                             "max_over_ranks_ns",
                                             "warm_up_rounds",
                                             "rounds",
                                             "stopped_by",
                                             "last_level_cache_bytes",
                                             "samples_ns",
                                             "median_ns",
                                             "p20_ns",
                                             "p80_ns",
                                             "stderr_ratio",
                                             "speedup",
                                             "bytes_per_second",
                                             "flops_per_second",
                                             "useful_flops_per_second",
                                             "tokens_per_second",
                                             "ceiling_ratio",
                                             "ceiling_judged",
                                             "communication_ratio",
                                             "rank_states",
                                             "rank_times",
                                             "straggler",
                                             "rate_per_second",
                                             "ceiling_details",
                                             "latency_ns",
                                             "measured",
                                             "ab"};
  return keys;
}

Json without_volatile_keys(Json report) {
  remove_volatile(report);
  return report;
}

}  // namespace lossgrid
