// SPDX-License-Identifier: Apache-2.0
// Archive: values as bytes and back, for ranks of one job that do not share memory. A class takes
// part with one function in its namespace, `template <typename A> void fields(A& archive, T&
// value)`, that calls archive(member, member, ...): both directions go through it, so they cannot
// differ. For processes of the same executable on machines with the same byte order; not for files.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/core/error.h"

namespace lossgrid {

template <typename T>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ArchiveWriter {
 public:
  template <typename... T>
  void operator()(T&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void put_bytes(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
  }
  void put_size(std::size_t size) {
    const auto count = static_cast<std::uint64_t>(size);
    put_bytes(&count, sizeof(count));
  }
  template <typename T>
  void put(T& value) {
    if constexpr (is_plain<T>) {
      put_bytes(&value, sizeof(T));
    } else {
      fields(*this, value);
    }
  }
  void put(std::string& text) {
    put_size(text.size());
    put_bytes(text.data(), text.size());
  }
  template <typename T>
  void put(std::vector<T>& values) {
    put_size(values.size());
    if constexpr (is_plain<T>) {
      put_bytes(values.data(), values.size() * sizeof(T));
    } else {
      for (T& value : values) put(value);
    }
  }
  template <typename T, std::size_t N>
  void put(std::array<T, N>& values) {
    for (T& value : values) put(value);
  }
  template <typename K, typename V>
  void put(std::map<K, V>& entries) {
    put_size(entries.size());
    for (auto& [key, value] : entries) {
      K copy = key;
      put(copy);
      put(value);
    }
  }
  template <typename T>
  void put(std::optional<T>& value) {
    bool there = value.has_value();
    put(there);
    if (there) put(*value);
  }

  std::string bytes_;
};

/// Throws internal when the bytes end before the values do.
class ArchiveReader {
 public:
  explicit ArchiveReader(std::string_view bytes) : rest_(bytes) {}

  template <typename... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  bool at_end() const { return rest_.empty(); }

 private:
  void get_bytes(void* data, std::size_t size) {
    if (size > rest_.size()) throw Error(ErrorCode::internal, "an archive ends too early");
    if (size > 0) std::memcpy(data, rest_.data(), size);
    rest_.remove_prefix(size);
  }
  std::size_t get_size() {
    std::uint64_t count = 0;
    get_bytes(&count, sizeof(count));
    if (count > rest_.size()) throw Error(ErrorCode::internal, "an archive ends too early");
    return static_cast<std::size_t>(count);
  }
  template <typename T>
  void get(T& value) {
    if constexpr (is_plain<T>) {
      get_bytes(&value, sizeof(T));
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& text) {
    text.resize(get_size());
    get_bytes(text.data(), text.size());
  }
  template <typename T>
  void get(std::vector<T>& values) {
    values.resize(get_size());
    if constexpr (is_plain<T>) {
      get_bytes(values.data(), values.size() * sizeof(T));
    } else {
      for (T& value : values) get(value);
    }
  }
  template <typename T, std::size_t N>
  void get(std::array<T, N>& values) {
    for (T& value : values) get(value);
  }
  template <typename K, typename V>
  void get(std::map<K, V>& entries) {
    entries.clear();
    for (std::size_t left = get_size(); left > 0; --left) {
      K key{};
      get(key);
      get(entries[key]);
    }
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    value.reset();
    if (there) get(value.emplace());
  }

  std::string_view rest_;
};

template <typename T>
std::string to_bytes(T value) {
  ArchiveWriter writer;
  writer(value);
  return writer.take();
}

/// Returns the T that to_bytes wrote. Throws internal if `bytes` are too short or too long for a T.
template <typename T>
T from_bytes(std::string_view bytes) {
  ArchiveReader reader(bytes);
  T value;
  reader(value);
  if (!reader.at_end()) throw Error(ErrorCode::internal, "an archive is longer than its values");
  return value;
}

}  // namespace lossgrid
