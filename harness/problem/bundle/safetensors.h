// SPDX-License-Identifier: Apache-2.0
// `SafetensorsFile`: reader and writer of the safetensors container: 8-byte little-endian header
// length, JSON header, raw data. It handles names, dtypes, shapes and bytes, independent of
// bundles. A file is checked completely when it is read, so that all views are in bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

/// Tensor in the memory of a file.
struct TensorView {
  std::string dtype;  // "F64", "F32", "BF16", "I64", "I32", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // not aligned: read it with memcpy
  std::int64_t elements() const;
  /// Returns element k as `T`, which must have the size of the dtype.
  template <typename T>
  T at(std::int64_t k) const;
};

/// File in memory, checked: header length within the file, every tensor's bytes = elements * size,
/// tensors side by side from the first byte of the data to the last, no name twice. A copy shares
/// the memory.
class SafetensorsFile {
 public:
  /// Reads and checks a file. Throws bad_input that names file, tensor and rule.
  static SafetensorsFile read(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(std::string_view name) const;
  /// Returns a tensor. Throws bad_input if it is missing.
  const TensorView& tensor(std::string_view name) const;
  /// Returns the names of all tensors, sorted.
  std::vector<std::string> names() const;

 private:
  std::string path_;
  std::shared_ptr<const std::string> bytes_;  // memory of the views
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

/// Tensor that owns its memory.
struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

/// Writes to a temporary file beside `path`, then renames. Tensors with wide elements come first,
/// so that all of them are aligned. Throws io; internal if data and shape do not agree.
void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<TensorToWrite>& tensors);

/// Returns "[40, 96]".
std::string format_shape(std::span<const std::int64_t> shape);

template <typename T>
T TensorView::at(std::int64_t k) const {
  T value;
  std::memcpy(&value, data.data() + static_cast<std::size_t>(k) * sizeof(T), sizeof(T));
  return value;
}

}  // namespace lossgrid
