// SPDX-License-Identifier: Apache-2.0
// `BundleTensors`: typed access to the tensors of a bundle or of recorded results, with the rules
// that both share. Internal to the readers of both. Every function that reads throws bad_input with
// one line that names file, tensor, index and rule.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/problem/bundle/safetensors.h"
#include "harness/problem/values/logits_source.h"

namespace lossgrid {

/// Tensors of one file.
class BundleTensors {
 public:
  explicit BundleTensors(SafetensorsFile file) : file_(std::move(file)) {}

  const SafetensorsFile& file() const { return file_; }
  bool has(std::string_view name) const { return file_.has(name); }

  /// Returns "FILE: tensor NAME", the start of every message.
  std::string what(std::string_view name) const;

  /// Returns the tensor, after checking its dtype against `dtypes` and its number of dimensions.
  TensorView require(std::string_view name, const std::vector<std::string>& dtypes,
                     std::size_t dimensions) const;
  /// Returns the tensor, after checking also the sizes of its dimensions; `meaning` explains the
  /// sizes ("[T]").
  TensorView require(std::string_view name, const std::vector<std::string>& dtypes,
                     const std::vector<std::int64_t>& shape, std::string_view meaning) const;

  /// Reads I32 or I64, one of `dtypes`.
  std::vector<std::int64_t> integers(std::string_view name, const std::vector<std::string>& dtypes,
                                     std::size_t dimensions) const;
  /// Reads I32 or I64 [size] as float32, which rounds numbers beyond 2^24.
  std::vector<float> whole_numbers(std::string_view name, std::int64_t size,
                                   std::string_view meaning) const;
  /// Reads F32 zeros and ones.
  std::vector<std::uint8_t> bits(std::string_view name, std::int64_t size,
                                 std::string_view meaning) const;
  /// Reads F32, any values.
  std::vector<float> floats(std::string_view name, const std::vector<std::int64_t>& shape,
                            std::string_view meaning) const;
  /// Reads F64 without NaN and +inf; -inf only with `allow_minus_infinity`.
  std::vector<double> doubles(std::string_view name, const std::vector<std::int64_t>& shape,
                              std::string_view meaning, bool allow_minus_infinity) const;

 private:
  SafetensorsFile file_;
};

/// Returns the rows of a logits tensor [T, V] of F64, F32 or BF16. Keeps the file's memory alive.
std::shared_ptr<const LogitsSource> make_bundle_logits(const SafetensorsFile& file,
                                                       std::string_view name);

/// Returns the dtype named "F64", "F32" or "BF16".
DType dtype_of_tensor(std::string_view dtype);
/// Returns the name of a dtype in safetensors.
std::string_view tensor_dtype(DType dtype);

/// Returns a tensor of `values` as elements of type T.
template <typename T, typename Values>
TensorToWrite make_tensor(std::string name, std::vector<std::int64_t> shape, const Values& values) {
  TensorToWrite tensor{
      std::move(name), std::string(tensor_dtype(DTypeOf<T>::value)), std::move(shape), {}};
  tensor.data.resize(values.size() * sizeof(T));
  std::byte* next = tensor.data.data();
  for (const auto value : values) {
    const T element = static_cast<T>(value);
    std::memcpy(next, &element, sizeof(T));
    next += sizeof(T);
  }
  return tensor;
}

/// Returns the elements of an F32 or BF16 tensor, exactly.
std::vector<float> elements_as_float(const TensorView& view);

/// True for NaN and +inf, which no logit may be; -inf is a value.
bool is_nan_or_inf(double value);

/// Counts NaN and +inf in a floating tensor.
std::int64_t count_nan_or_inf(const TensorView& view);

}  // namespace lossgrid
