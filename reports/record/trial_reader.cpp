// SPDX-License-Identifier: Apache-2.0
#include "reports/record/trial_reader.h"

#include <algorithm>

namespace lossgrid {
namespace {

TrialStatus trial_status(const ReportJson& json) {
  const auto text = field<std::string>(json, "status");
  for (const TrialStatus status : trial_statuses()) {
    if (name(status) == text) return status;
  }
  throw_bad_input("unknown status '{}' of a trial", text);
}

std::optional<WorstElement> worst_from(const ReportJson& json) {
  if (json.is_null()) return std::nullopt;
  return WorstElement{field<std::int64_t>(json, "rank"), index_field(json, "sequence"),
                      index_field(json, "token"),        index_field(json, "vocab_id"),
                      number_field(json, "got"),         number_field(json, "want")};
}

CheckRecord check_from(const ReportJson& json) {
  CheckRecord check;
  check.name = field<std::string>(json, "name");
  check.passed = field<bool>(json, "passed");
  check.ratio = ratio_field(json, "ratio");
  check.error_abs = number_field(json, "error_abs");
  check.bound_abs = number_field(json, "bound_abs");
  check.compared = field<std::int64_t>(json, "compared");
  check.beyond_bound = field<std::int64_t>(json, "beyond_bound");
  check.worst = worst_from(member(json, "worst"));
  return check;
}

InvariantRecord invariant_from(const ReportJson& json) {
  return {field<std::string>(json, "name"), field<std::string>(json, "status"),
          field<std::string>(json, "detail")};
}

DeterminismRecord determinism_from(const ReportJson& json) {
  return {field<std::string>(json, "name"), field<std::string>(json, "verdict"),
          field<bool>(json, "claimed"), field<std::string>(json, "detail")};
}

CommunicationRecord communication_from(const ReportJson& json) {
  CommunicationRecord record;
  record.rank = field<std::int64_t>(json, "rank");
  record.phase = field<std::string>(json, "phase");
  record.group = field<std::string>(json, "group");
  record.operation = field<std::string>(json, "operation");
  record.predicted_calls = optional_count(json, "predicted_calls");
  record.measured_calls = field<std::int64_t>(json, "measured_calls");
  record.predicted_payload_bytes = optional_count(json, "predicted_payload_bytes");
  record.measured_payload_bytes = field<std::int64_t>(json, "measured_payload_bytes");
  return record;
}

PhaseTimeRecord time_from(const ReportJson& json) {
  return {field<std::string>(json, "phase"), field<std::int64_t>(json, "max_over_ranks_ns"),
          field<std::int64_t>(json, "predicted_flops"),
          field_if_there<std::int64_t>(json, "kernel_launches", 0),
          field_if_there<std::int64_t>(json, "host_synchronisations", 0)};
}

RankRecord rank_from(const ReportJson& json) {
  return {field<std::int64_t>(json, "rank"),
          field<std::string>(json, "state"),
          field_or<std::string>(json, "phase", ""),
          field<std::string>(json, "message"),
          field<std::vector<std::string>>(json, "collectives"),
          field_if_there<std::string>(json, "detail", "")};
}

std::map<std::string, std::optional<double>> metrics_from(const ReportJson& json) {
  std::map<std::string, std::optional<double>> out;
  for (const auto& [name, value] : json.items()) out[name] = optional_field(json, name.c_str());
  return out;
}

std::map<std::string, std::string> texts_from(const ReportJson& json) {
  return map_from<std::string>(json);
}

std::map<std::string, double> numbers_from(const ReportJson& json) {
  return map_from<double>(json);
}

}  // namespace

ReportJson with_defaults(const std::string& key, const ReportJson& object,
                         const ReportJson& defaults) {
  const auto standard = defaults.find(key);
  if (!object.is_object() || standard == defaults.end()) return object;
  ReportJson out = ReportJson::object();
  for (const auto& [name, value] : object.items()) {
    out[name] = with_defaults(name, value, defaults);
  }
  for (const auto& [name, value] : standard->items()) {
    if (!object.contains(name)) out[name] = value;
  }
  return out;
}

TrialReader::TrialReader(ReportJson defaults)
    : defaults_(std::move(defaults)),
      cases_{"case", case_from},
      metrics_{"metrics", metrics_from},
      reductions_{"metric_reductions", texts_from},
      branches_{"branches", numbers_from},
      checks_{"checks", check_from},
      invariants_{"invariants", invariant_from},
      determinism_{"determinism", determinism_from},
      memory_{"memory", memory_from},
      communication_{"communication", communication_from},
      fingerprints_{"fingerprints", texts_from} {
  if (!defaults_.is_object()) defaults_ = ReportJson::object();
}

TrialReader::Case TrialReader::case_from(const ReportJson& json) {
  return {field<std::string>(json, "name"), member(json, "parameters")};
}

TrialReader::RankedMemory TrialReader::memory_from(const ReportJson& json) {
  PhaseMemoryRecord record;
  record.phase = field<std::string>(json, "phase");
  record.predicted_peak_bytes = optional_count(json, "predicted_peak_bytes");
  record.measured_peak_bytes = field<std::int64_t>(json, "measured_peak_bytes");
  record.measured_peak_with_inputs_bytes =
      field<std::int64_t>(json, "measured_peak_with_inputs_bytes");
  record.measured_allocations = field<std::int64_t>(json, "measured_allocations");
  record.by_tag_bytes = map_field<std::int64_t>(json, "by_tag_bytes");
  const auto of_driver = [&](const char* key) -> std::optional<std::int64_t> {
    if (!json.contains(key)) return std::nullopt;
    return field<std::int64_t>(json, key);
  };
  record.device_used_bytes = of_driver("device_used_bytes");
  record.device_other_bytes = of_driver("device_other_bytes");
  if (json.contains("ranks")) return {field<std::vector<std::int64_t>>(json, "ranks"), record};
  return {{field<std::int64_t>(json, "rank")}, record};
}

template <typename Value>
void TrialReader::add(const ReportJson& lists, Shared<Value>& shared) const {
  if (!lists.contains(shared.key)) return;
  for (const ReportJson& value : member(lists, shared.key)) {
    shared.values.push_back(shared.read(with_defaults(shared.key, value, defaults_)));
  }
}

void TrialReader::add_shared(const ReportJson& lists) {
  if (lists.is_null()) return;
  add(lists, cases_);
  add(lists, metrics_);
  add(lists, reductions_);
  add(lists, branches_);
  add(lists, checks_);
  add(lists, invariants_);
  add(lists, determinism_);
  add(lists, memory_);
  add(lists, communication_);
  add(lists, fingerprints_);
}

template <typename Value>
Value TrialReader::value_of(const Shared<Value>& shared, const ReportJson& said) const {
  if (!said.is_number()) return shared.read(with_defaults(shared.key, said, defaults_));
  if (!said.is_number_unsigned() || said.get<std::size_t>() >= shared.values.size()) {
    throw_bad_input("'{}' of a trial is {}, and 'shared' has {} of them", shared.key, said.dump(),
                    shared.values.size());
  }
  return shared.values[said.get<std::size_t>()];
}

template <typename Value>
std::vector<Value> TrialReader::values_of(const Shared<Value>& shared,
                                          const ReportJson& trial) const {
  return list_field(trial, shared.key,
                    [&](const ReportJson& said) { return value_of(shared, said); });
}

std::vector<PhaseMemoryRecord> TrialReader::memory_of(const ReportJson& trial) const {
  std::vector<PhaseMemoryRecord> out;
  bool joined = false;
  for (RankedMemory& memory : values_of(memory_, trial)) {
    joined = joined || memory.ranks.size() > 1;
    for (const std::int64_t rank : memory.ranks) {
      out.push_back(memory.record);
      out.back().rank = rank;
    }
  }
  if (joined)
    std::stable_sort(out.begin(), out.end(),
                     [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

TrialRecord TrialReader::read(const ReportJson& said) const {
  const ReportJson json = with_defaults("trial", said, defaults_);
  TrialRecord trial;
  trial.id = field<std::string>(json, "id");
  const Case what = value_of(cases_, member(json, "case"));
  trial.case_name = what.name;
  trial.case_parameters = what.parameters;
  const ReportJson& grid = member(json, "grid");
  trial.tp = field<int>(grid, "tp");
  trial.cp = field<int>(grid, "cp");
  trial.dp = field<int>(grid, "dp");
  trial.pp = field<int>(grid, "pp");
  trial.sp = field<bool>(grid, "sp");
  trial.implementation = field<std::string>(json, "implementation");
  trial.details = map_field<std::string>(json, "details");
  trial.backend = field<std::string>(json, "backend");
  trial.transport = field<std::string>(json, "transport");
  trial.status = trial_status(json);
  trial.reason = field<std::string>(json, "reason");
  if (json.contains("explanation")) {
    trial.explanation = field<std::vector<std::string>>(json, "explanation");
  }
  trial.first_failed_rank = index_field(json, "first_failed_rank");
  trial.ranks = list_field(json, "rank_states", rank_from);
  const ReportJson& batch = member(json, "batch");
  trial.tokens = field<std::int64_t>(batch, "tokens");
  trial.padded_tokens = field<std::int64_t>(batch, "padded_tokens");
  trial.valid_tokens = field<std::int64_t>(batch, "valid_tokens");
  trial.microbatches = field<int>(batch, "microbatches");
  trial.chunks = field<std::int64_t>(json, "chunks");
  trial.metrics = value_of(metrics_, member(json, "metrics"));
  trial.metric_reductions = value_of(reductions_, member(json, "metric_reductions"));
  trial.branch_shares = value_of(branches_, member(json, "branches"));
  trial.checks = values_of(checks_, json);
  for (const auto& [key, value] : member(json, "relative_l2").items()) {
    trial.relative_l2[key] = ratio_field(member(json, "relative_l2"), key.c_str());
  }
  if (json.contains("gradient_scale")) {
    trial.gradient_scale = map_field<double>(json, "gradient_scale");
  }
  trial.invariants = values_of(invariants_, json);
  trial.determinism = values_of(determinism_, json);
  trial.memory = memory_of(json);
  trial.communication = values_of(communication_, json);
  trial.times = list_field(json, "times", [&](const ReportJson& time) {
    return time_from(with_defaults("times", time, defaults_));
  });
  trial.fingerprints = value_of(fingerprints_, member(json, "fingerprints"));
  if (json.contains("cost_mismatches")) {
    trial.cost_mismatches = field<std::vector<std::string>>(json, "cost_mismatches");
  }
  trial.reproduce = field<std::string>(json, "reproduce");
  return trial;
}

}  // namespace lossgrid
