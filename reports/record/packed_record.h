// SPDX-License-Identifier: Apache-2.0
// Trials as bytes and back, by visitors of their fields (field.h): for a file of the same process
// (trial_list.h), not for reports.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/record/trial_record.h"

namespace lossgrid {

class RecordPacker {
 public:
  template <typename Record>
  static std::string bytes_of(const Record& record) {
    RecordPacker packer;
    fields(packer, const_cast<Record&>(record));  // visitors share one list; this one only reads
    return std::move(packer.bytes_);
  }

  void record(const char*, const char*) {}
  template <typename T>
  void operator()(const char*, const T& value, const char*, const Rule& = {}) {
    put(value);
  }
  template <typename T>
  void computed(const char*, const T&, const char*, const Rule& = {}) {}
  template <typename T, typename Read>
  void computed(const char*, const T& value, Read&&, const char*, const Rule& = {}) {
    put(value);
  }
  template <typename Body>
  void object(const char*, const char*, const Rule&, Body&& body) {
    body();
  }
  template <typename Body>
  void object_if(bool there, const char*, const char*, const Rule&, Body&& body) {
    put(there);
    if (there) body();
  }

 private:
  void put_bytes(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
  }
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      put_bytes(&value, sizeof(T));
    } else if constexpr (std::is_same_v<T, nlohmann::ordered_json>) {
      put(value.dump());
    } else {
      fields(*this, const_cast<T&>(value));
    }
  }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    put_bytes(text.data(), text.size());
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }
  template <typename T>
  void put(const std::map<std::string, T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const auto& [key, value] : values) {
      put(key);
      put(value);
    }
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }

  std::string bytes_;
};

/// Inverse of RecordPacker, for records of one type, one after the other.
class RecordUnpacker {
 public:
  /// Returns the record of `bytes`. `last`, the record before, gives it its JSON where that is the
  /// same, as trials of a case have it: parsing takes longer than all the rest. A record may have
  /// one member of JSON.
  TrialRecord next_trial(std::string_view bytes, TrialRecord&& last) {
    TrialRecord record;
    record.case_parameters = std::move(last.case_parameters);
    rest_ = bytes;
    fields(*this, record);
    return record;
  }

  void record(const char*, const char*) {}
  template <typename T>
  void operator()(const char*, T& value, const char*, const Rule& = {}) {
    get(value);
  }
  template <typename T>
  void computed(const char*, const T&, const char*, const Rule& = {}) {}
  template <typename T, typename Read>
  void computed(const char*, T value, Read&& read, const char*, const Rule& = {}) {
    get(value);
    read(value);
  }
  template <typename Body>
  void object(const char*, const char*, const Rule&, Body&& body) {
    body();
  }
  template <typename Body>
  void object_if(bool, const char*, const char*, const Rule&, Body&& body) {
    if (next<bool>()) body();
  }

 private:
  void get_bytes(void* data, std::size_t size) {
    std::memcpy(data, rest_.data(), size);
    rest_.remove_prefix(size);
  }
  template <typename T>
  T next() {
    T value{};
    get(value);
    return value;
  }
  template <typename T>
  void get(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      get_bytes(&value, sizeof(T));
    } else if constexpr (std::is_same_v<T, nlohmann::ordered_json>) {
      std::string text = next<std::string>();
      if (text != json_text_) value = nlohmann::ordered_json::parse(text);
      json_text_ = std::move(text);
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& text) {
    text.resize(next<std::uint64_t>());
    get_bytes(text.data(), text.size());
  }
  template <typename T>
  void get(std::vector<T>& values) {
    values.resize(next<std::uint64_t>());
    for (T& value : values) get(value);
  }
  template <typename T>
  void get(std::map<std::string, T>& values) {
    for (auto left = next<std::uint64_t>(); left > 0; --left) {
      const auto key = next<std::string>();
      get(values[key]);
    }
  }
  template <typename T>
  void get(std::optional<T>& value) {
    value.reset();
    if (next<bool>()) get(value.emplace());
  }

  std::string_view rest_;
  std::string json_text_;  // of the record before
};

}  // namespace lossgrid
