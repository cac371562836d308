// SPDX-License-Identifier: Apache-2.0
#include "reports/file/report_reader.h"

#include <algorithm>
#include <sstream>

#include "reports/file/json_reader.h"
#include "reports/file/schema.h"

namespace lossgrid {
namespace {

constexpr std::string_view kFormat = "lossgrid.report/";

void require_format(const ReportJson& json) {
  const auto format = field<std::string>(json, "schema");
  if (!format.starts_with(kFormat)) throw_bad_input("'{}' is no report of lossgrid", format);
  if (format != kReportFormat) {
    throw_bad_input("it has version {} of the format, this lossgrid reads version {} alone",
                    format.substr(kFormat.size()), kFormatVersion);
  }
}

/// Adds to the lists that places of trials are in. Null adds nothing.
void add_shared(ReportJson lists, CommonParts& common) {
  for (auto& [key, values] : lists.items()) {
    std::vector<ReportJson>& known = common.shared[key];
    for (ReportJson& value : values) known.push_back(std::move(value));
  }
}

/// One record for each of "ranks", in the order of ranks.
void take_ranks_apart(std::vector<PhaseMemoryRecord>& memory) {
  const auto is_joined = [](const PhaseMemoryRecord& record) { return !record.ranks.empty(); };
  if (std::none_of(memory.begin(), memory.end(), is_joined)) return;
  std::vector<PhaseMemoryRecord> out;
  for (PhaseMemoryRecord& record : memory) {
    const std::vector<std::int64_t> ranks = std::exchange(record.ranks, {});
    if (ranks.empty()) out.push_back(record);
    for (const std::int64_t rank : ranks) {
      out.push_back(record);
      out.back().rank = rank;
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.rank < b.rank; });
  memory = std::move(out);
}

template <typename Record>
Record record_from(const ReportJson& json, const CommonParts& common = {}, const char* key = "") {
  Record record;
  JsonReader reader(json, common, key);
  fields(reader, record);
  return record;
}

TrialRecord trial_from(const ReportJson& json, const CommonParts& common) {
  auto trial = record_from<TrialRecord>(json, common, "trial");
  take_ranks_apart(trial.memory);
  return trial;
}

void read_header(const ReportJson& json, RunRecord& run) {
  require_format(json);
  const ReportJson& about = member(json, "run");
  ReportJson header{{"run", about}, {"environment", member(json, "environment")}};
  // null: the run did not end
  if (member(about, "exit_code").is_null()) header["run"]["exit_code"] = 0;
  const CommonParts common;
  JsonReader reader(header, common);
  header_fields(reader, run);
  if (about.contains("planned")) run.planned = record_from<PlannedWork>(about["planned"]);
}

CommonParts common_parts_of(const ReportJson& header) {
  return {member(header, "defaults")};
}

RunRecord run_from_json(const ReportJson& json) {
  RunRecord run;
  read_header(json, run);
  CommonParts common = common_parts_of(json);
  add_shared(json.value("shared", ReportJson()), common);
  const ReportJson& trials = member(json, "trials");
  if (!trials.is_array()) throw_bad_input("the key 'trials' holds no list");
  for (const ReportJson& trial : trials) run.trials.push_back(trial_from(trial, common));
  JsonReader reader(json, common);
  list_fields(reader, run);
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
  CommonParts common;
  for (std::string line; std::getline(lines, line); first = false) {
    const ReportJson json = ReportJson::parse(line, nullptr, false);
    if (json.is_discarded() && lines.peek() == EOF && !first) break;  // cut off by the crash
    if (json.is_discarded()) throw_bad_input("a line is no JSON");
    if (first) {
      read_header(json, run);
      common = common_parts_of(json);
    } else if (json.contains("begin")) {
      run.begun_id = field<std::string>(json, "begin");
      run.begun_reproduce = json.contains("reproduce") ? field<std::string>(json, "reproduce") : "";
    } else if (json.contains("trial")) {
      add_shared(json.value("shared", ReportJson()), common);
      run.trials.push_back(trial_from(json["trial"], common));
      end_begun(run, run.trials.back().id);
    } else if (json.contains("timing")) {
      run.timings.push_back(record_from<TimingRecord>(json["timing"]));
      end_begun(run, run.timings.back().id());
    } else if (json.contains("ab")) {
      run.ab.push_back(record_from<AbRecord>(json["ab"]));
    } else if (json.contains("mutant")) {
      run.mutants.push_back(record_from<MutantRecord>(json["mutant"]));
    }
  }
  if (first) throw_bad_input("it is empty");
  return run;
}

}  // namespace

RunRecord read_report(const std::string& path) {
  return parse_report(read_report_file(path));
}

RunRecord parse_report(const ReportFile& file) {
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
