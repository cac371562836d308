// SPDX-License-Identifier: Apache-2.0
#include "reports/file/validate.h"

#include <algorithm>
#include <set>
#include <utility>

#include "harness/core/text.h"
#include "reports/file/json_fields.h"
#include "reports/file/report_format.h"
#include "reports/file/report_json.h"
#include "reports/file/schema.h"

namespace lossgrid {
namespace {

/// Parses `text`, which begins at that line of the file.
ReportJson parsed(std::string_view text, std::size_t line) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto has_unique_keys = [&](int, ReportJson::parse_event_t event, ReportJson& parsed) {
    using Event = ReportJson::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw_bad_input("the key '{}' stands twice in one object", parsed.get<std::string>());
    }
    return true;
  };
  try {
    return ReportJson::parse(text, has_unique_keys);
  } catch (const ReportJson::parse_error& error) {
    const std::string_view before = text.substr(0, std::min(error.byte, text.size()));
    line += static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    throw_bad_input("line {} is no JSON", line);
  } catch (const ReportJson::exception&) {
    throw_bad_input("it has a number that no double holds");
  }
}

/// Parses the lines of a partial file, without a last one that a crash cut off.
std::vector<ReportJson> parsed_lines(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  lines.pop_back();  // empty, or cut off
  std::vector<ReportJson> out;
  for (const std::string& line : lines) out.push_back(parsed(line, out.size() + 1));
  if (out.empty()) throw_bad_input("it is empty");
  return out;
}

/// Returns the report that the lines would have become.
ReportJson report_of(std::vector<ReportJson> lines) {
  RunRecord run;
  ReportJson& header = lines.front();
  if (header.contains("run") && header["run"].is_object()) {
    const ReportJson command = header["run"].value("command", ReportJson());
    if (command.is_string()) run.command = command.get<std::string>();
    if (header["run"].value("exit_code", ReportJson()).is_null()) header["run"]["exit_code"] = 0;
  }
  ReportJson report = run_to_json(run);
  for (const char* key : {"schema", "run", "environment", "defaults"}) {
    report.erase(key);
    if (header.contains(key)) report[key] = header[key];
  }
  for (std::size_t k = 1; k < lines.size(); ++k) {
    for (const auto& [key, list] : {std::pair("trial", "trials"), std::pair("timing", "timings"),
                                    std::pair("mutant", "mutants")}) {
      if (lines[k].contains(key)) report[list].push_back(std::move(lines[k][key]));
    }
    if (!lines[k].contains("shared")) continue;
    for (auto& [key, values] : lines[k]["shared"].items()) {
      for (ReportJson& value : values) report["shared"][key].push_back(std::move(value));
    }
  }
  return report;
}

/// Returns the name of the schema of "lossgrid.NAME/VERSION".
std::string schema_of(const std::string& format) {
  std::vector<std::string> known;
  for (const std::string& name : schema_names()) {
    const std::string any_version = fmt::format("lossgrid.{}/", name);
    known.push_back(fmt::format("{}{}", any_version, kFormatVersion));
    if (format == known.back()) return name;
    if (!format.starts_with(any_version)) continue;
    throw_bad_input("it has the format {}, this lossgrid reads {} alone", format, known.back());
  }
  throw_bad_input("no format '{}'; known: {}", format, join(known, ", "));
}

/// Returns a line for each place in a trial that the lists of "shared" do not have.
std::vector<std::string> place_problems(const ReportJson& report) {
  std::vector<std::string> problems;
  const ReportJson shared = report.value("shared", ReportJson::object());
  std::size_t number = 0;
  for (const ReportJson& trial : report["trials"]) {
    for (const std::string& key : report_format().shared_keys) {
      const std::size_t size = shared.contains(key) ? shared[key].size() : 0;
      const auto judge = [&](const ReportJson& value, const std::string& where) {
        if (!value.is_number()) return;
        if (value.is_number_unsigned() && value.get<std::size_t>() < size) return;
        problems.push_back(fmt::format("/trials/{}/{}: /shared/{} has {} elements. It is {}.",
                                       number, where, key, size, value.dump()));
      };
      if (!trial.contains(key)) continue;
      const ReportJson& value = trial[key];
      judge(value, key);
      if (!value.is_array()) continue;
      for (std::size_t k = 0; k < value.size(); ++k) judge(value[k], fmt::format("{}/{}", key, k));
    }
    ++number;
  }
  return problems;
}

Validation validation_of(const ReportJson& document) {
  Validation result;
  result.format = field<std::string>(document, "schema");
  const std::string name = schema_of(result.format);
  result.problems = schema_problems(name, document);
  if (name == "report" && result.problems.empty()) result.problems = place_problems(document);
  return result;
}

}  // namespace

Validation validate_file(const std::string& path) {
  return validate(read_report_file(path));
}

Validation validate(const ReportFile& file) {
  try {
    if (!file.partial) return validation_of(parsed(file.text, 1));
    Validation result = validation_of(report_of(parsed_lines(file.text)));
    result.partial = true;
    return result;
  } catch (const Error& error) {
    throw_bad_input("{}: {}", file.path, error.what());
  }
}

}  // namespace lossgrid
