// SPDX-License-Identifier: Apache-2.0
// Checked access to members of a JSON object, for readers of files. null stands for what does not
// apply or is no number.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "harness/core/error.h"

namespace lossgrid {

using ReportJson = nlohmann::ordered_json;

/// Throws bad_input when it is not there.
inline const ReportJson& member(const ReportJson& object, const char* key) {
  const auto place = object.find(key);  // the end for all but objects
  if (place == object.end()) throw_bad_input("the key '{}' is missing", key);
  return *place;
}

/// `value` as a T; `key`, for messages. Throws bad_input for another type.
template <typename T>
T value_as(const ReportJson& value, const char* key) {
  try {
    return value.get<T>();
  } catch (const nlohmann::json::exception&) {
    throw_bad_input("the key '{}' holds a {}", key, value.type_name());
  }
}

template <typename T>
T field(const ReportJson& object, const char* key) {
  return value_as<T>(member(object, key), key);
}

inline std::optional<double> optional_field(const ReportJson& object, const char* key) {
  return member(object, key).is_null() ? std::nullopt : std::optional(field<double>(object, key));
}

}  // namespace lossgrid
