// SPDX-License-Identifier: Apache-2.0
#include "reports/file/report_format.h"

#include <utility>

#include "reports/file/report_fields.h"
#include "reports/file/schema_maker.h"
#include "reports/schema_texts.h"

namespace lossgrid {
namespace {

using Json = nlohmann::ordered_json;

/// Adds the members of `from`, and those of objects that both have.
void merge(Json& into, const Json& from) {
  for (const auto& [key, value] : from.items()) {
    Json& old = into[key];
    if (old.is_object() && value.is_object()) {
      merge(old, value);
    } else {
      old = value;
    }
  }
}

ReportFormat made() {
  FormatParts parts;
  parts.format.defaults["trial"] = Json::object();  // the first of them in reports
  SchemaMaker maker(parts, "", "#");
  RunRecord run;
  fields(maker, run);
  const Json of_fields = maker.take();

  const Json rules = Json::parse(kReportRules);
  Json schema;
  for (const char* key : {"$schema", "$id", "$comment", "title", "description"}) {
    schema[key] = rules[key];
  }
  merge(schema, of_fields);
  Json& defaults = schema["properties"]["defaults"] = {{"type", "object"}};
  for (const auto& [key, value] : parts.defaults.items()) defaults["required"].push_back(key);
  defaults["properties"] = std::move(parts.defaults);
  schema["properties"]["shared"] = {{"type", "object"}, {"properties", std::move(parts.shared)}};
  schema["$defs"] = std::move(parts.definitions);
  schema["required"].push_back("defaults");
  merge(schema, rules);

  parts.format.schema = std::move(schema);
  parts.format.volatile_keys.emplace_back("host");  // of "environment", which has no list of fields
  return std::move(parts.format);
}

}  // namespace

const ReportFormat& report_format() {
  static const ReportFormat format = made();
  return format;
}

}  // namespace lossgrid
