// SPDX-License-Identifier: Apache-2.0
// `JsonWriter`: visitor of the fields of a record (field.h) that makes the JSON object of a report,
// with everything written out. Internal to report_json.cpp.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/record/field.h"
#include "reports/record/trial_list.h"

namespace lossgrid {

class JsonWriter {
 public:
  using Json = nlohmann::ordered_json;

  /// The object of `value`.
  template <typename Record>
  static Json object_of(const Record& record) {
    JsonWriter writer;
    return writer.write(record);
  }

  /// Writes `json` in the place of a member. Before the record is written.
  void replace(std::string_view key, Json json) {
    replaced_ = key;
    replacement_ = std::move(json);
  }
  template <typename Record>
  Json write(const Record& record) {
    fields(*this, const_cast<Record&>(record));  // visitors share one list; this one only reads
    return take();
  }
  Json take() { return std::exchange(out_, Json::object()); }

  void record(const char*, const char*) {}

  template <typename T>
  void operator()(const char* key, const T& value, const char*, const Rule& rule = {}) {
    if (rule.left_out) return;
    out_[key] = key == replaced_ ? std::move(replacement_) : json_of(value, rule);
  }
  template <typename T>
  void computed(const char* key, const T& value, const char*, const Rule& rule = {}) {
    if (!rule.left_out) out_[key] = json_of(value, rule);
  }
  template <typename T, typename Read>
  void computed(const char* key, const T& value, Read&&, const char*, const Rule& rule = {}) {
    computed(key, value, "", rule);
  }
  template <typename Body>
  void object(const char* key, const char* description, const Rule& rule, Body&& body) {
    object_if(true, key, description, rule, body);
  }
  template <typename Body>
  void object_if(bool there, const char* key, const char*, const Rule&, Body&& body) {
    Json outer = take();
    if (there) body();
    outer[key] = there ? take() : Json();
    out_ = std::move(outer);
  }

 private:
  template <typename T>
  static Json json_of(const T& value, const Rule& rule) {
    if constexpr (std::is_same_v<T, Json>) {
      return value.is_object() ? value : Json::object();
    } else if constexpr (std::is_same_v<T, bool>) {
      return value;
    } else if constexpr (std::is_enum_v<T>) {
      return name(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::isfinite(value) ? Json(value) : Json();  // JSON has no NaN and no infinity
    } else if constexpr (std::is_integral_v<T>) {
      const bool is_null = rule.null && std::cmp_less(value, rule.minimum.value_or(0));
      return is_null ? Json() : Json(value);
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      return rule.null && std::string_view(value).empty() ? Json() : Json(value);
    } else {
      return json_of_parts(value, rule);
    }
  }
  template <typename T>
  static Json json_of_parts(const std::optional<T>& value, const Rule& rule) {
    return value ? json_of(*value, rule) : Json();
  }
  template <typename T>
  static Json json_of_parts(const std::vector<T>& values, const Rule& rule) {
    Json out = Json::array();
    for (const T& value : values) out.push_back(json_of(value, rule));
    return out;
  }
  static Json json_of_parts(const TrialList& trials, const Rule& rule) {
    Json out = Json::array();
    for (const TrialRecord& trial : trials) out.push_back(json_of(trial, rule));
    return out;
  }
  template <typename T>
  static Json json_of_parts(const std::map<std::string, T>& values, const Rule& rule) {
    Json out = Json::object();
    for (const auto& [key, value] : values) out[key] = json_of(value, rule);
    return out;
  }
  template <typename Record>
  static Json json_of_parts(const Record& record, const Rule&) {
    return object_of(record);
  }

  Json out_ = Json::object();
  std::string_view replaced_;  // by replacement_
  Json replacement_;
};

}  // namespace lossgrid
