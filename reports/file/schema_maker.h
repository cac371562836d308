// SPDX-License-Identifier: Apache-2.0
// `SchemaMaker`: visitor of the fields of a record (field.h) that makes its JSON schema, and takes
// note of all that the compact form of a report may leave out or share. Internal to
// report_format.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/core/text.h"
#include "reports/file/report_format.h"
#include "reports/record/record.h"

namespace lossgrid {

inline const auto& all_of(TrialStatus) {
  return trial_statuses();
}
inline const auto& all_of(TimingStatus) {
  return timing_statuses();
}
inline auto all_of(AbVerdict) {
  using enum AbVerdict;
  return std::array{ok, improved, inconclusive, regressed};
}

/// Format of a report while it is made: beside the keys, the parts of its schema.
struct FormatParts {
  using Json = nlohmann::ordered_json;
  ReportFormat format;
  Json definitions = Json::object();  // schemas of records, by name
  Json defaults = Json::object();     // schemas of "defaults" and "shared", by key
  Json shared = Json::object();
};

class SchemaMaker {
 public:
  using Json = nlohmann::ordered_json;

  /// Adds to `parts`. `key`: that of the record in "defaults"; `place`: that of its schema.
  SchemaMaker(FormatParts& parts, std::string key, std::string place)
      : parts_(parts), level_{.key = std::move(key), .place = std::move(place)} {}

  void record(const char* name, const char* description) {
    name_ = name;
    level_.place = std::string("#/$defs/") + name;
    level_.schema["description"] = description;
  }

  template <typename T>
  void operator()(const char* key, T& value, const char* description, const Rule& rule = {}) {
    add(key, schema_of(value, key, place_of(key), rule), description, rule);
  }
  template <typename T>
  void computed(const char* key, T value, const char* description, const Rule& rule = {}) {
    (*this)(key, value, description, rule);
  }
  template <typename T, typename Read>
  void computed(const char* key, T value, Read&&, const char* description, const Rule& rule = {}) {
    (*this)(key, value, description, rule);
  }
  template <typename Body>
  void object(const char* key, const char* description, const Rule& rule, Body&& body) {
    Level inner{.key = key, .place = place_of(key)};
    std::swap(level_, inner);
    body();
    std::swap(level_, inner);
    add(key, std::move(inner.schema), description, rule);
  }
  template <typename Body>
  void object_if(bool, const char* key, const char* description, const Rule& rule, Body&& body) {
    object(key, description, rule, body);
    allow(level_.schema["properties"][key], "null");
  }

  /// Returns the schema of the record; of one with a name, a reference to it.
  Json take() {
    if (name_ == nullptr) return std::move(level_.schema);
    parts_.definitions[name_] = std::move(level_.schema);
    return {{"$ref", level_.place}};
  }

 private:
  /// An object of the report.
  struct Level {
    std::string key;
    std::string place;
    Json schema = {{"type", "object"}, {"required", Json::array()}, {"properties", Json::object()}};
  };

  std::string place_of(const char* key) const { return level_.place + "/properties/" + key; }

  void add(const char* key, Json made, const char* description, const Rule& rule) {
    const bool may_be_absent = rule.left_out || rule.usual != nullptr || rule.unless != nullptr;
    if (!may_be_absent) level_.schema["required"].push_back(key);
    if (rule.unless != nullptr) {
      level_.schema["if"] = {{"type", "object"}, {"not", {{"required", {rule.unless}}}}};
      level_.schema["then"]["required"].push_back(key);
    }
    if (rule.usual != nullptr) add_default(key, rule);
    if (rule.shared) share(key, made);
    std::vector<std::string>& volatile_keys = parts_.format.volatile_keys;
    const bool is_new =
        std::find(volatile_keys.begin(), volatile_keys.end(), key) == volatile_keys.end();
    if (rule.varies && is_new) volatile_keys.emplace_back(key);
    made["description"] = description;
    level_.schema["properties"][key] = std::move(made);
  }

  void add_default(const char* key, const Rule& rule) {
    parts_.format.defaults[level_.key][key] = Json::parse(rule.usual);
    Json& schema = parts_.defaults[level_.key];
    schema["type"] = "object";
    schema["required"].push_back(key);
    schema["properties"][key] = {{"$ref", place_of(key)}};
  }

  /// Lets a place in "shared" stand instead of `schema`, or of an element of its list.
  void share(const char* key, Json& schema) {
    parts_.format.shared_keys.emplace_back(key);
    const bool is_list = schema["type"] == "array";
    Json element{{"$ref", place_of(key)}};
    if (is_list) element = schema["items"];
    parts_.shared[key] = {{"type", "array"}, {"items", element}};
    const std::string name = is_list ? element["$ref"].get<std::string>().substr(8) : "";
    Json& changed = is_list ? parts_.definitions[name] : schema;
    allow(changed, "integer");
    changed["minimum"] = 0;
  }

  static void allow(Json& schema, const char* type) {
    if (schema.contains("enum")) {
      schema["enum"].push_back(nullptr);
    } else {
      schema["type"] = {schema["type"], type};
    }
  }

  template <typename T>
  Json schema_of(T& value, const char* key, const std::string& place, const Rule& rule) {
    if constexpr (std::is_same_v<T, Json>) {
      return {{"type", "object"}};
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                         std::is_convertible_v<T, std::string>) {
      Json schema = schema_of_value(value, rule);
      if (rule.null) allow(schema, "null");
      return schema;
    } else {
      return schema_of_parts(value, key, place, rule);
    }
  }
  template <typename T>
  Json schema_of_parts(std::optional<T>&, const char* key, const std::string& place,
                       const Rule& rule) {
    T value{};
    Json made = schema_of(value, key, place, rule);
    if (!rule.left_out) allow(made, "null");
    return made;
  }
  template <typename T>
  Json schema_of_parts(std::vector<T>&, const char* key, const std::string& place,
                       const Rule& rule) {
    T value{};
    const bool is_root = level_.key.empty();  // its trials have the key "trial" in "defaults"
    Json made = schema_of(value, is_root ? "trial" : key, place + "/items", rule);
    Json list{{"type", "array"}, {"items", std::move(made)}};
    if (rule.min_items > 0) list["minItems"] = rule.min_items;
    if (rule.max_items > 0) list["maxItems"] = rule.max_items;
    return list;
  }
  Json schema_of_parts(TrialList&, const char* key, const std::string& place, const Rule& rule) {
    std::vector<TrialRecord> trials;
    return schema_of_parts(trials, key, place, rule);
  }
  template <typename T>
  Json schema_of_parts(std::map<std::string, T>&, const char* key, const std::string& place,
                       const Rule& rule) {
    T value{};
    Json made = schema_of(value, key, place, rule);
    return {{"type", "object"}, {"additionalProperties", std::move(made)}};
  }
  template <typename Record>
  Json schema_of_parts(Record& record, const char* key, const std::string& place, const Rule&) {
    SchemaMaker maker(parts_, key, place);
    fields(maker, record);
    return maker.take();
  }

  template <typename T>
  static Json schema_of_value(const T& value, const Rule& rule) {
    if constexpr (std::is_enum_v<T>) {
      Json names = Json::array();
      for (const T each : all_of(value)) names.push_back(name(each));
      return {{"enum", rule.one_of == nullptr ? names : values_of<std::string>(rule)}};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {{"type", "boolean"}};
    } else if constexpr (std::is_arithmetic_v<T>) {
      if (rule.one_of != nullptr) return {{"enum", values_of<T>(rule)}};
      Json schema{{"type", std::is_integral_v<T> ? "integer" : "number"}};
      if (rule.positive) {
        schema["exclusiveMinimum"] = 0;
      } else if (rule.minimum) {
        schema["minimum"] = *rule.minimum;
      }
      if (rule.maximum) schema["maximum"] = *rule.maximum;
      return schema;
    } else {
      if (rule.one_of != nullptr) return {{"enum", values_of<std::string>(rule)}};
      Json schema{{"type", "string"}};
      if (rule.nonempty) schema["minLength"] = 1;
      if (rule.pattern != nullptr) schema["pattern"] = rule.pattern;
      return schema;
    }
  }
  template <typename T>
  static Json values_of(const Rule& rule) {
    Json values = Json::array();
    for (const std::string& text : split(rule.one_of, ' ')) {
      if constexpr (std::is_same_v<T, std::string>) {
        values.push_back(text);
      } else {
        values.push_back(Json::parse(text));
      }
    }
    return values;
  }

  FormatParts& parts_;
  Level level_;
  const char* name_ = nullptr;
};

}  // namespace lossgrid
