// SPDX-License-Identifier: Apache-2.0
#include "reports/file/schema.h"

#include <algorithm>

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "reports/file/report_format.h"
#include "reports/schema_texts.h"

namespace lossgrid {
namespace {

using valijson::ValidationResults;

constexpr std::size_t kValueWidth = 60;

/// Returns the place of an error: {"trials", "0"}. The library writes "<root>", "[trials]", "[0]".
std::vector<std::string> steps_of(const ValidationResults::Error& error) {
  std::vector<std::string> steps;
  for (std::size_t k = 1; k < error.context.size(); ++k) {
    const std::string& step = error.context[k];
    steps.push_back(step.substr(1, step.size() - 2));
  }
  return steps;
}

const nlohmann::json& value_at(const nlohmann::json& document,
                               const std::vector<std::string>& steps) {
  const nlohmann::json* value = &document;
  for (const std::string& step : steps) {
    value = value->is_array() ? &value->at(std::stoul(step)) : &value->at(step);
  }
  return *value;
}

/// True if the description only repeats that something below its place is wrong.
bool repeats_another(const std::string& description) {
  return description.starts_with("Failed to validate") &&
         description != "Failed to validate against exactly one child schema.";
}

}  // namespace

const std::vector<std::string>& schema_names() {
  static const std::vector<std::string> names{"report", "policy"};
  return names;
}

std::string_view schema_text(std::string_view name) {
  static const std::string of_reports = report_format().schema.dump(2) + '\n';
  if (name == "report") return of_reports;
  if (name == "policy") return kPolicySchema;
  throw Error(ErrorCode::usage, unknown_name_message("schema", name, schema_names()));
}

std::vector<std::string> schema_problems(std::string_view name,
                                         const nlohmann::ordered_json& document) {
  using Adapter = valijson::adapters::NlohmannJsonAdapter;
  const nlohmann::json schema_json = nlohmann::json::parse(schema_text(name));
  valijson::Schema schema;
  valijson::SchemaParser().populateSchema(Adapter(schema_json), schema);
  const nlohmann::json json = document;
  ValidationResults results;
  std::vector<std::string> problems;
  if (valijson::Validator().validate(schema, Adapter(json), &results)) return problems;
  for (const ValidationResults::Error& error : results) {
    if (repeats_another(error.description)) continue;
    const std::vector<std::string> steps = steps_of(error);
    std::string line = fmt::format("/{}: {}", join(steps, "/"), error.description);
    const nlohmann::json& value = value_at(json, steps);
    if (value.is_primitive()) line += " It is " + shortened(value.dump(), kValueWidth) + '.';
    if (std::find(problems.begin(), problems.end(), line) == problems.end()) {
      problems.push_back(line);
    }
  }
  return problems;
}

}  // namespace lossgrid
