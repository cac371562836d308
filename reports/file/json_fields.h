// SPDX-License-Identifier: Apache-2.0
// Checked access to members of a JSON object, for readers of files. null stands for what does not
// apply or is no number.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

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

/// Returns a whole number that a T holds, whether it is written as 2 or as 2.0; nullopt for any
/// other value.
template <typename T>
std::optional<T> whole_number(const ReportJson& value) {
  constexpr double kExact = 9007199254740992;  // 2^53: beyond it a double is no single whole number
  const auto narrowed = [](auto whole) {
    return std::in_range<T>(whole) ? std::optional(static_cast<T>(whole)) : std::nullopt;
  };
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (!(std::abs(number) <= kExact) || std::trunc(number) != number) return std::nullopt;
    return narrowed(static_cast<std::int64_t>(number));
  }
  if (value.is_number_unsigned()) return narrowed(value.get<std::uint64_t>());
  return value.is_number_integer() ? narrowed(value.get<std::int64_t>()) : std::nullopt;
}

/// `value` as a T; `key`, for messages. Throws bad_input for another type, and for a number that is
/// not one of an integer T.
template <typename T>
T value_as(const ReportJson& value, const char* key) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (const std::optional<T> whole = whole_number<T>(value)) return *whole;
    if (!value.is_number()) throw_bad_input("the key '{}' holds a {}", key, value.type_name());
    throw_bad_input("the key '{}' holds {}, no whole number from {} to {}", key, value.dump(),
                    std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
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
