// SPDX-License-Identifier: Apache-2.0
// The way back of report_json.cpp.
#include "reports/record/report_reader.h"

#include <algorithm>
#include <sstream>

#include "harness/core/text.h"
#include "reports/record/json_fields.h"
#include "reports/record/report_file.h"
#include "reports/record/schema.h"
#include "reports/record/trial_reader.h"

namespace lossgrid {
namespace {

MeterRecord meter_from(const ReportJson& json) {
  return {field<std::string>(json, "name"), field<bool>(json, "passed"),
          number_field(json, "expected"),   number_field(json, "measured"),
          field<std::string>(json, "unit"), field<std::string>(json, "detail")};
}

constexpr std::string_view kFormat = "lossgrid.report/";

void require_format(const ReportJson& json) {
  const auto format = field<std::string>(json, "schema");
  if (!format.starts_with(kFormat)) throw_bad_input("'{}' is no report of lossgrid", format);
  const std::string version = format.substr(kFormat.size());
  const std::vector<std::string>& known = schema_versions("report");
  if (std::find(known.begin(), known.end(), version) == known.end()) {
    throw_bad_input("it has version {} of the format, this lossgrid reads {}", version,
                    join(known, " and "));
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

ReportJson defaults_of(const ReportJson& header) {
  return header.value("defaults", ReportJson());
}

RunRecord run_from_json(const ReportJson& json) {
  RunRecord run;
  read_header(json, run);
  TrialReader trials(defaults_of(json));
  trials.add_shared(json.value("shared", ReportJson()));
  run.trials =
      list_field(json, "trials", [&](const ReportJson& trial) { return trials.read(trial); });
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

/// The first line is the run, each other one a trial, timing, A/B comparison or mutant. Beside a
/// trial stands what it adds to the lists that trials share.
RunRecord run_from_lines(const std::string& text) {
  RunRecord run;
  std::istringstream lines(text);
  bool first = true;
  TrialReader trials{ReportJson()};
  for (std::string line; std::getline(lines, line); first = false) {
    const ReportJson json = ReportJson::parse(line, nullptr, false);
    if (json.is_discarded() && lines.peek() == EOF && !first) break;  // cut off by the crash
    if (json.is_discarded()) throw_bad_input("a line is no JSON");
    if (first) {
      read_header(json, run);
      trials = TrialReader(defaults_of(json));
    } else if (json.contains("begin")) {
      run.begun_id = field<std::string>(json, "begin");
      run.begun_reproduce = field_if_there<std::string>(json, "reproduce", "");
    } else if (json.contains("trial")) {
      trials.add_shared(json.value("shared", ReportJson()));
      run.trials.push_back(trials.read(json["trial"]));
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
  const ReportFile file = read_report_file(path);
  try {
    if (file.partial) return run_from_lines(file.text);
    const ReportJson json = ReportJson::parse(file.text, nullptr, false);
    if (json.is_discarded()) throw_bad_input("it is no JSON");
    return run_from_json(json);
  } catch (const Error& error) {
    throw_bad_input("{}: {}", file.path, error.what());
  }
}

}  // namespace lossgrid
