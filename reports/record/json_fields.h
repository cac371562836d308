// SPDX-License-Identifier: Apache-2.0
// Members of a JSON object as they stand in reports, where null stands for what does not apply or
// is no number. Internal to the readers.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"

namespace lossgrid {

using ReportJson = nlohmann::ordered_json;

/// Throws bad_input when it is not there.
inline const ReportJson& member(const ReportJson& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) throw_bad_input("the key '{}' is missing", key);
  return object[key];
}

template <typename T>
T field(const ReportJson& object, const char* key) {
  const ReportJson& value = member(object, key);
  try {
    return value.get<T>();
  } catch (const nlohmann::json::exception&) {
    throw_bad_input("the key '{}' holds a {}", key, value.type_name());
  }
}

/// `otherwise` for null.
template <typename T>
T field_or(const ReportJson& object, const char* key, T otherwise) {
  return member(object, key).is_null() ? otherwise : field<T>(object, key);
}

/// Of a key that reports of earlier versions, or of other programs, do not have.
template <typename T>
T field_if_there(const ReportJson& object, const char* key, T otherwise) {
  return object.contains(key) ? field<T>(object, key) : otherwise;
}

inline double number_field(const ReportJson& object, const char* key) {
  return field_or(object, key, std::numeric_limits<double>::quiet_NaN());
}

inline double ratio_field(const ReportJson& object, const char* key) {
  return field_or(object, key, std::numeric_limits<double>::infinity());
}

inline std::optional<double> optional_field(const ReportJson& object, const char* key) {
  return member(object, key).is_null() ? std::nullopt : std::optional(field<double>(object, key));
}

inline std::optional<std::int64_t> optional_count(const ReportJson& object, const char* key) {
  if (member(object, key).is_null()) return std::nullopt;
  return field<std::int64_t>(object, key);
}

inline std::int64_t index_field(const ReportJson& object, const char* key) {
  return field_or<std::int64_t>(object, key, -1);
}

/// {"name": value, ...}
template <typename T>
std::map<std::string, T> map_from(const ReportJson& object) {
  std::map<std::string, T> out;
  for (const auto& [name, value] : object.items()) out[name] = field<T>(object, name.c_str());
  return out;
}

/// "key": {"name": value, ...}
template <typename T>
std::map<std::string, T> map_field(const ReportJson& object, const char* key) {
  return map_from<T>(member(object, key));
}

/// "key": [element, ...]
template <typename Read>
auto list_field(const ReportJson& object, const char* key, Read&& read) {
  std::vector<decltype(read(object))> out;
  const ReportJson& list = member(object, key);
  if (!list.is_array()) throw_bad_input("the key '{}' holds no list", key);
  for (const ReportJson& element : list) out.push_back(read(element));
  return out;
}

}  // namespace lossgrid
