// SPDX-License-Identifier: Apache-2.0
// The way back of report_json.cpp.
#include "reports/report_reader.h"

#include <filesystem>
#include <sstream>

#include "harness/core/file.h"
#include "harness/core/text.h"
#include "reports/json_fields.h"
#include "reports/report_writer.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "lossgrid.report/";
constexpr int kMajorVersion = 1;

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

PhaseMemoryRecord memory_from(const ReportJson& json) {
  PhaseMemoryRecord record;
  record.rank = field<std::int64_t>(json, "rank");
  record.phase = field<std::string>(json, "phase");
  record.predicted_peak_bytes = field<std::int64_t>(json, "predicted_peak_bytes");
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
  return record;
}

CommunicationRecord communication_from(const ReportJson& json) {
  CommunicationRecord record;
  record.rank = field<std::int64_t>(json, "rank");
  record.phase = field<std::string>(json, "phase");
  record.group = field<std::string>(json, "group");
  record.operation = field<std::string>(json, "operation");
  record.predicted_calls = field<std::int64_t>(json, "predicted_calls");
  record.measured_calls = field<std::int64_t>(json, "measured_calls");
  record.predicted_payload_bytes = field<std::int64_t>(json, "predicted_payload_bytes");
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
  return {field<std::int64_t>(json, "rank"), field<std::string>(json, "state"),
          field_or<std::string>(json, "phase", ""), field<std::string>(json, "message"),
          field<std::vector<std::string>>(json, "collectives")};
}

MeterRecord meter_from(const ReportJson& json) {
  return {field<std::string>(json, "name"), field<bool>(json, "passed"),
          number_field(json, "expected"),   number_field(json, "measured"),
          field<std::string>(json, "unit"), field<std::string>(json, "detail")};
}

void require_format(const ReportJson& json) {
  const auto format = field<std::string>(json, "schema");
  if (!format.starts_with(kFormat)) throw_bad_input("'{}' is no report of lossgrid", format);
  const std::string version = format.substr(kFormat.size());
  if (version != std::to_string(kMajorVersion)) {
    throw_bad_input("it has version {} of the format, this lossgrid reads version {}", version,
                    kMajorVersion);
  }
}

void read_header(const ReportJson& json, RunRecord& run) {
  require_format(json);
  const ReportJson& about = member(json, "run");
  run.command = field<std::string>(about, "command");
  run.arguments = field<std::vector<std::string>>(about, "arguments");
  run.suite = field<std::string>(about, "suite");
  run.started_utc = field_or<std::string>(about, "started_utc", "");
  run.ended_utc = field_or<std::string>(about, "ended_utc", "");
  run.status = field<std::string>(about, "status");
  run.exit_code = field_or<int>(about, "exit_code", 0);
  if (about.contains("planned")) {
    const ReportJson& planned = about["planned"];
    run.planned = PlannedWork{field<std::int64_t>(planned, "trials"),
                              field<std::int64_t>(planned, "timings")};
  }
  run.environment = member(json, "environment");
  const ReportJson& stages = member(about, "stages_ns");
  if (stages.is_null()) return;
  for (std::size_t k = 0; k < kStages; ++k) {
    const auto stage = static_cast<Stage>(k);
    run.stages[stage] = field<std::int64_t>(stages, std::string(name(stage)).c_str());
  }
  run.wall_ns = run.stages.total() + field<std::int64_t>(stages, "other");
}

RunRecord run_from_json(const ReportJson& json) {
  RunRecord run;
  read_header(json, run);
  run.trials = list_field(json, "trials", trial_from_json);
  run.timings = list_field(json, "timings", timing_from_json);
  run.meter = list_field(json, "meter", meter_from);
  if (json.contains("ab")) run.ab = list_field(json, "ab", ab_from_json);
  if (run.command == "mutants") run.mutants = list_field(json, "mutants", mutant_from_json);
  return run;
}

void end_begun(RunRecord& run, const std::string& id) {
  if (run.begun_id != id) return;
  run.begun_id.clear();
  run.begun_reproduce.clear();
}

/// The first line is the run, each other one a trial, timing, A/B comparison or mutant.
RunRecord run_from_lines(const std::string& text) {
  RunRecord run;
  std::istringstream lines(text);
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    const ReportJson json = ReportJson::parse(line, nullptr, false);
    if (json.is_discarded() && lines.peek() == EOF && !first) break;  // cut off by the crash
    if (json.is_discarded()) throw_bad_input("a line is no JSON");
    if (first) {
      read_header(json, run);
    } else if (json.contains("begin")) {
      run.begun_id = field<std::string>(json, "begin");
      run.begun_reproduce = field_if_there<std::string>(json, "reproduce", "");
    } else if (json.contains("trial")) {
      run.trials.push_back(trial_from_json(json["trial"]));
      end_begun(run, run.trials.back().id);
    } else if (json.contains("timing")) {
      run.timings.push_back(timing_from_json(json["timing"]));
      end_begun(run, run.timings.back().id());
    } else if (json.contains("ab")) {
      run.ab.push_back(ab_from_json(json["ab"]));
    } else if (json.contains("mutant")) {
      run.mutants.push_back(mutant_from_json(json["mutant"]));
    }
  }
  if (first) throw_bad_input("it is empty");
  return run;
}

}  // namespace

TrialRecord trial_from_json(const ReportJson& json) {
  TrialRecord trial;
  trial.id = field<std::string>(json, "id");
  trial.case_name = field<std::string>(member(json, "case"), "name");
  trial.case_parameters = member(member(json, "case"), "parameters");
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
  trial.first_failed_rank = index_field(json, "first_failed_rank");
  trial.ranks = list_field(json, "rank_states", rank_from);
  const ReportJson& batch = member(json, "batch");
  trial.tokens = field<std::int64_t>(batch, "tokens");
  trial.padded_tokens = field<std::int64_t>(batch, "padded_tokens");
  trial.valid_tokens = field<std::int64_t>(batch, "valid_tokens");
  trial.microbatches = field<int>(batch, "microbatches");
  trial.chunks = field<std::int64_t>(json, "chunks");
  for (const auto& [key, value] : member(json, "metrics").items()) {
    trial.metrics[key] = optional_field(member(json, "metrics"), key.c_str());
  }
  trial.metric_reductions = map_field<std::string>(json, "metric_reductions");
  trial.branch_shares = map_field<double>(json, "branches");
  trial.checks = list_field(json, "checks", check_from);
  for (const auto& [key, value] : member(json, "relative_l2").items()) {
    trial.relative_l2[key] = ratio_field(member(json, "relative_l2"), key.c_str());
  }
  trial.invariants = list_field(json, "invariants", invariant_from);
  trial.determinism = list_field(json, "determinism", determinism_from);
  trial.memory = list_field(json, "memory", memory_from);
  trial.communication = list_field(json, "communication", communication_from);
  trial.times = list_field(json, "times", time_from);
  trial.fingerprints = map_field<std::string>(json, "fingerprints");
  if (json.contains("cost_mismatches")) {
    trial.cost_mismatches = field<std::vector<std::string>>(json, "cost_mismatches");
  }
  trial.reproduce = field<std::string>(json, "reproduce");
  return trial;
}

MutantRecord mutant_from_json(const ReportJson& json) {
  MutantRecord mutant;
  mutant.name = field<std::string>(json, "name");
  mutant.catalogue_id = field_or<std::string>(json, "catalogue_id", "");
  mutant.what = field<std::string>(json, "what");
  mutant.is_control = field<bool>(json, "is_control");
  mutant.trials = field<std::int64_t>(json, "trials");
  mutant.rejected = field<bool>(json, "rejected");
  if (mutant.rejected) {
    const ReportJson& by = member(json, "rejected_by");
    mutant.rejected_by_case = field<std::string>(by, "case");
    mutant.rejected_by_grid = field<std::string>(by, "grid");
    mutant.rejected_by_checks = field<std::vector<std::string>>(by, "checks");
  }
  mutant.reproduce = field_or<std::string>(json, "reproduce", "");
  return mutant;
}

RunRecord read_report(const std::string& path) {
  const std::string partial = path + kPartialReportSuffix;
  const bool cut_off = path.ends_with(".jsonl") || (!fs::exists(path) && fs::exists(partial));
  const std::string file = cut_off && !path.ends_with(".jsonl") ? partial : path;
  const std::string text = read_text_file(file);
  try {
    if (cut_off) return run_from_lines(text);
    const ReportJson json = ReportJson::parse(text, nullptr, false);
    if (json.is_discarded()) throw_bad_input("it is no JSON");
    return run_from_json(json);
  } catch (const Error& error) {
    throw_bad_input("{}: {}", file, error.what());
  }
}

}  // namespace lossgrid
