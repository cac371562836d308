// SPDX-License-Identifier: Apache-2.0
#include "reports/validate.h"

#include <algorithm>
#include <filesystem>

#include "harness/core/file.h"
#include "harness/core/text.h"
#include "reports/json_fields.h"
#include "reports/report_json.h"
#include "reports/report_writer.h"
#include "reports/schema.h"

namespace lossgrid {
namespace {

namespace fs = std::filesystem;

/// `line`: of the file, that the text begins with.
ReportJson parsed(std::string_view text, std::size_t line) {
  try {
    return ReportJson::parse(text);
  } catch (const ReportJson::parse_error& error) {
    const std::string_view before = text.substr(0, std::min(error.byte, text.size()));
    line += static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    throw_bad_input("line {} is no JSON", line);
  }
}

/// The lines of a partial file without what a crash cut off.
std::vector<ReportJson> parsed_lines(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  lines.pop_back();  // empty, or cut off
  std::vector<ReportJson> out;
  for (const std::string& line : lines) out.push_back(parsed(line, out.size() + 1));
  if (out.empty()) throw_bad_input("it is empty");
  return out;
}

/// The report that the lines would have become.
ReportJson report_of(std::vector<ReportJson> lines) {
  RunRecord run;
  ReportJson& header = lines.front();
  if (header.contains("run") && header["run"].is_object()) {
    run.command = header["run"].value("command", "");
    if (header["run"].value("exit_code", ReportJson()).is_null()) header["run"]["exit_code"] = 0;
  }
  ReportJson report = run_to_json(run);
  for (const char* key : {"schema", "run", "environment"}) {
    report.erase(key);
    if (header.contains(key)) report[key] = header[key];
  }
  for (std::size_t k = 1; k < lines.size(); ++k) {
    for (const auto& [key, list] : {std::pair("trial", "trials"), std::pair("timing", "timings"),
                                    std::pair("mutant", "mutants")}) {
      if (lines[k].contains(key)) report[list].push_back(lines[k][key]);
    }
  }
  return report;
}

/// The schema of "lossgrid.NAME/MAJOR".
std::string schema_of(const std::string& format) {
  std::vector<std::string> known;
  for (const std::string& name : schema_names()) {
    known.push_back(fmt::format("lossgrid.{}/1", name));
    if (format == known.back()) return name;
    if (!format.starts_with(known.back().substr(0, known.back().size() - 1))) continue;
    throw_bad_input("it has the format {}, this lossgrid knows {}", format, known.back());
  }
  throw_bad_input("no format '{}'; known: {}", format, join(known, ", "));
}

Validation validation_of(const ReportJson& document) {
  Validation result;
  result.format = field<std::string>(document, "schema");
  result.problems = schema_problems(schema_of(result.format), document);
  return result;
}

}  // namespace

Validation validate_file(const std::string& path) {
  const bool has_partial = !fs::exists(path) && fs::exists(path + kPartialReportSuffix);
  const std::string file = has_partial ? path + kPartialReportSuffix : path;
  const std::string text = read_text_file(file);
  try {
    if (!file.ends_with(".jsonl")) return validation_of(parsed(text, 1));
    Validation result = validation_of(report_of(parsed_lines(text)));
    result.partial = true;
    return result;
  } catch (const Error& error) {
    throw_bad_input("{}: {}", file, error.what());
  }
}

}  // namespace lossgrid
