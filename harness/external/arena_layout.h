// SPDX-License-Identifier: Apache-2.0
// `ArenaLayout`: places of named arrays in the memory that a worker shares; the list of `begin`
// (python/PROTOCOL.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/dtype.h"

namespace lossgrid {

class ArenaLayout {
 public:
  /// Offset and size in bytes.
  struct Place {
    std::size_t offset;
    std::size_t size;
  };

  /// Adds a row-major array; `dtype` is a name as returned by protocol_name.
  void add(const std::string& name, const std::string& dtype, std::size_t element_bytes,
           const std::vector<std::int64_t>& shape) {
    constexpr std::size_t kAlignment = 64;
    const std::int64_t count =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const std::size_t size = static_cast<std::size_t>(count) * element_bytes;
    list_[name] = {{"dtype", dtype}, {"shape", shape}, {"offset", bytes_}};
    places_[name] = {bytes_, size};
    bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::size_t bytes() const { return bytes_; }
  const std::map<std::string, Place>& places() const { return places_; }
  /// Returns the list in the form of the protocol.
  const nlohmann::json& list() const { return list_; }

 private:
  std::size_t bytes_ = 0;
  std::map<std::string, Place> places_;
  nlohmann::json list_ = nlohmann::json::object();
};

/// Returns "float64", "float32" or "bfloat16".
inline std::string protocol_name(DType dtype) {
  return dtype == DType::f64 ? "float64" : dtype == DType::f32 ? "float32" : "bfloat16";
}

}  // namespace lossgrid
