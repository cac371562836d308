// SPDX-License-Identifier: Apache-2.0
// The safetensors container: 8-byte little-endian header length, JSON header, raw data. Knows names,
// dtypes, shapes and bytes; nothing about bundles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

struct TensorView {
  std::string dtype;  // "F64", "F32", "BF16", "I64", "I32", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  std::int64_t elements() const;
};

/// A file read into memory and checked: header length within the file, offsets inside the data and
/// in order, bytes = elements * size. Throws bad_input that names file, tensor and rule.
class SafetensorsFile {
 public:
  static SafetensorsFile read(const std::string& path);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(std::string_view name) const;
  /// Throws bad_input when missing.
  const TensorView& tensor(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::vector<std::byte> bytes_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

/// Writes to a temporary file beside `path`, then renames. Throws io.
void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<TensorToWrite>& tensors);

}  // namespace lossgrid
