// SPDX-License-Identifier: Apache-2.0
// `JsonReader`: visitor of the fields of a record (field.h) that reads them from the JSON object of
// a report (compact_report.h). Keys that are not known are passed over. Throws bad_input for a
// missing key and for a value of another type. Internal to report_reader.cpp.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reports/file/json_fields.h"
#include "reports/record/record.h"

namespace lossgrid {

inline void read_name(const std::string& text, TrialStatus& status) {
  status = trial_status(text);
}
inline void read_name(const std::string& text, TimingStatus& status) {
  status = timing_status(text);
}
inline void read_name(const std::string& text, AbVerdict& verdict) {
  verdict = ab_verdict(text);
}

/// Parts of a report that its trials refer to.
// NOLINTNEXTLINE(bugprone-exception-escape): the noexcept move constructor of the JSON library
struct CommonParts {
  ReportJson defaults = ReportJson::object();                               // by key of an object
  std::map<std::string, std::vector<ReportJson>, std::less<>> shared = {};  // by key of a trial
};

class JsonReader {
 public:
  /// `key`: that of `object` in "defaults".
  JsonReader(const ReportJson& object, const CommonParts& common, const char* key = "")
      : common_(common), object_(&object), key_(key) {}

  void record(const char*, const char*) {}

  template <typename T>
  void operator()(const char* key, T& value, const char*, const Rule& rule = {}) {
    if (const ReportJson* json = find(key, rule)) read(*json, key, value, rule);
  }
  template <typename T>
  void computed(const char*, const T&, const char*, const Rule& = {}) {}
  template <typename T, typename Read>
  void computed(const char* key, T value, Read&& read, const char* description,
                const Rule& rule = {}) {
    (*this)(key, value, description, rule);
    read(value);
  }
  template <typename Body>
  void object(const char* key, const char*, const Rule& rule, Body&& body) {
    const ReportJson* json = find(key, rule);
    if (json == nullptr) return;
    const auto outer_object = std::exchange(object_, &resolved(*json, key, rule));
    const auto outer_key = std::exchange(key_, key);
    body();
    object_ = outer_object;
    key_ = outer_key;
  }
  template <typename Body>
  void object_if(bool, const char* key, const char* description, const Rule& rule, Body&& body) {
    const ReportJson* json = find(key, rule);
    if (json != nullptr && !json->is_null()) object(key, description, rule, body);
  }

 private:
  /// The value of `key`; null where the record keeps what it begins with.
  const ReportJson* find(const char* key, const Rule& rule) const {
    const auto place = object_->find(key);
    if (place != object_->end()) return &*place;
    if (object_->is_object()) {
      const auto defaults = common_.defaults.find(key_);
      if (defaults != common_.defaults.end() && defaults->contains(key)) return &(*defaults)[key];
      if (rule.left_out) return nullptr;
    }
    throw_bad_input("the key '{}' is missing", key);
  }

  /// `value`, or the element of "shared" that it is the place of.
  const ReportJson& resolved(const ReportJson& value, const char* key, const Rule& rule) const {
    if (!rule.shared || !value.is_number()) return value;
    const auto list = common_.shared.find(key);
    const std::size_t size = list == common_.shared.end() ? 0 : list->second.size();
    if (!value.is_number_unsigned() || value.get<std::size_t>() >= size) {
      throw_bad_input("'{}' of a trial is {}, and 'shared' has {} of them", key, value.dump(),
                      size);
    }
    return list->second[value.get<std::size_t>()];
  }

  template <typename T>
  void read(const ReportJson& json, const char* key, T& value, const Rule& rule) const {
    if constexpr (std::is_enum_v<T>) {
      read_name(value_as<std::string>(json, key), value);
    } else if constexpr (std::is_floating_point_v<T>) {
      using Limits = std::numeric_limits<T>;
      const T not_finite = rule.infinite ? Limits::infinity() : Limits::quiet_NaN();
      value = json.is_null() ? not_finite : value_as<T>(json, key);
    } else if constexpr (std::is_same_v<T, ReportJson>) {
      value = json;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      if (!rule.null || !json.is_null()) value = value_as<T>(json, key);
    } else {
      read_parts(json, key, value, rule);
    }
  }
  template <typename T>
  void read_parts(const ReportJson& json, const char* key, std::optional<T>& value,
                  const Rule& rule) const {
    value.reset();
    if (!json.is_null()) read(json, key, value.emplace(), rule);
  }
  template <typename T>
  void read_parts(const ReportJson& json, const char* key, std::vector<T>& values,
                  const Rule& rule) const {
    if (!json.is_array()) throw_bad_input("the key '{}' holds no list", key);
    for (const ReportJson& element : json) {
      read(resolved(element, key, rule), key, values.emplace_back(), rule);
    }
  }
  template <typename T>
  void read_parts(const ReportJson& json, const char* key, std::map<std::string, T>& values,
                  const Rule& rule) const {
    const ReportJson& object = resolved(json, key, rule);
    if (!object.is_object()) throw_bad_input("the key '{}' holds a {}", key, object.type_name());
    for (const auto& [name, value] : object.items()) read(value, name.c_str(), values[name], rule);
  }
  template <typename Record>
  void read_parts(const ReportJson& json, const char* key, Record& record, const Rule&) const {
    JsonReader reader(json, common_, key);
    fields(reader, record);
  }

  const CommonParts& common_;
  const ReportJson* object_;
  const char* key_;
};

}  // namespace lossgrid
