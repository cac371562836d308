// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/bundle/bundle_tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/problem/case/checked_json.h"

namespace lossgrid {
namespace {

class BundleLogits : public LogitsSource {
 public:
  BundleLogits(const SafetensorsFile& file, std::string_view name)
      : file_(file),
        view_(file_.tensor(name)),
        dtype_(dtype_of_tensor(view_.dtype)),
        vocab_(view_.shape[1]) {}

  void read(std::int64_t token, std::int64_t begin, std::span<double> out) const override {
    read_as(token, begin, out);
  }
  void read(std::int64_t token, std::int64_t begin, std::span<float> out) const override {
    read_as(token, begin, out);
  }

 private:
  template <typename Out>
  void read_as(std::int64_t token, std::int64_t begin, std::span<Out> out) const {
    dispatch_floating(dtype_, [&](auto element) {
      using T = decltype(element);
      const std::int64_t first = token * vocab_ + begin;
      for (std::size_t k = 0; k < out.size(); ++k) {
        out[k] = static_cast<Out>(view_.at<T>(first + static_cast<std::int64_t>(k)));
      }
    });
  }

  const SafetensorsFile file_;  // owner of the view's memory
  const TensorView view_;
  const DType dtype_;
  const std::int64_t vocab_;
};

}  // namespace

std::string BundleTensors::what(std::string_view name) const {
  return fmt::format("{}: tensor {}", file_.path(), printable(name));
}

TensorView BundleTensors::require(std::string_view name, const std::vector<std::string>& dtypes,
                                  std::size_t dimensions) const {
  const TensorView& view = file_.tensor(name);
  if (std::find(dtypes.begin(), dtypes.end(), view.dtype) == dtypes.end()) {
    throw_bad_input("{}: dtype {}, must be {}", what(name), view.dtype, join(dtypes, " or "));
  }
  if (view.shape.size() != dimensions) {
    throw_bad_input("{}: shape {}, must have {} dimension{}", what(name), format_shape(view.shape),
                    dimensions, dimensions == 1 ? "" : "s");
  }
  return view;
}

TensorView BundleTensors::require(std::string_view name, const std::vector<std::string>& dtypes,
                                  const std::vector<std::int64_t>& shape,
                                  std::string_view meaning) const {
  const TensorView view = require(name, dtypes, shape.size());
  if (view.shape != shape) {
    throw_bad_input("{}: shape {}, must be {} = {}", what(name), format_shape(view.shape), meaning,
                    format_shape(shape));
  }
  return view;
}

std::vector<std::int64_t> BundleTensors::integers(std::string_view name,
                                                  const std::vector<std::string>& dtypes,
                                                  std::size_t dimensions) const {
  const TensorView view = require(name, dtypes, dimensions);
  std::vector<std::int64_t> out(static_cast<std::size_t>(view.elements()));
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto at = static_cast<std::int64_t>(k);
    out[k] = view.dtype == "I64" ? view.at<std::int64_t>(at) : view.at<std::int32_t>(at);
  }
  return out;
}

std::vector<float> BundleTensors::whole_numbers(std::string_view name, std::int64_t size,
                                                std::string_view meaning) const {
  require(name, {"I32", "I64"}, {size}, meaning);
  const std::vector<std::int64_t> numbers = integers(name, {"I32", "I64"}, 1);
  std::vector<float> out;
  out.reserve(numbers.size());
  for (const std::int64_t number : numbers) out.push_back(static_cast<float>(number));
  return out;
}

std::vector<std::uint8_t> BundleTensors::bits(std::string_view name, std::int64_t size,
                                              std::string_view meaning) const {
  const TensorView view = require(name, {"F32"}, {size}, meaning);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(size));
  for (std::int64_t k = 0; k < size; ++k) {
    const float value = view.at<float>(k);
    if (value != 0 && value != 1) {  // also true for NaN
      throw_bad_input("{}: {} at index {}, must be 0 or 1", what(name), value, k);
    }
    out[static_cast<std::size_t>(k)] = value != 0 ? 1 : 0;
  }
  return out;
}

std::vector<float> BundleTensors::floats(std::string_view name,
                                         const std::vector<std::int64_t>& shape,
                                         std::string_view meaning) const {
  return elements_as_float(require(name, {"F32"}, shape, meaning));
}

std::vector<double> BundleTensors::doubles(std::string_view name,
                                           const std::vector<std::int64_t>& shape,
                                           std::string_view meaning,
                                           bool allow_minus_infinity) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const TensorView view = require(name, {"F64"}, shape, meaning);
  std::vector<double> out(static_cast<std::size_t>(view.elements()));
  for (std::size_t k = 0; k < out.size(); ++k) {
    out[k] = view.at<double>(static_cast<std::int64_t>(k));
    if (std::isfinite(out[k]) || (allow_minus_infinity && out[k] == -kInfinity)) continue;
    if (shape.size() == 2) {
      const auto columns = static_cast<std::size_t>(shape[1]);
      throw_bad_input("{}: {} at index [{}, {}], must be finite", what(name), out[k], k / columns,
                      k % columns);
    }
    throw_bad_input("{}: {} at index {}, must be finite", what(name), out[k], k);
  }
  return out;
}

std::shared_ptr<const LogitsSource> make_bundle_logits(const SafetensorsFile& file,
                                                       std::string_view name) {
  return std::make_shared<BundleLogits>(file, name);
}

DType dtype_of_tensor(std::string_view dtype) {
  if (dtype == "F64") return DType::f64;
  return dtype == "BF16" ? DType::bf16 : DType::f32;
}

std::string_view tensor_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::bf16:
      return "BF16";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "I32";
    case DType::u8:
      return "U8";
    default:
      return "F32";
  }
}

std::vector<float> elements_as_float(const TensorView& view) {
  std::vector<float> out(static_cast<std::size_t>(view.elements()));
  dispatch_floating(dtype_of_tensor(view.dtype), [&](auto element) {
    using T = decltype(element);
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k] = static_cast<float>(view.at<T>(static_cast<std::int64_t>(k)));
    }
  });
  return out;
}

bool is_nan_or_inf(double value) {
  return std::isnan(value) || value == std::numeric_limits<double>::infinity();
}

std::int64_t count_nan_or_inf(const TensorView& view) {
  return dispatch_floating(dtype_of_tensor(view.dtype), [&](auto element) {
    using T = decltype(element);
    std::int64_t count = 0;
    const std::int64_t elements = view.elements();
    for (std::int64_t k = 0; k < elements; ++k) {
      count += is_nan_or_inf(static_cast<double>(view.at<T>(k))) ? 1 : 0;
    }
    return count;
  });
}

}  // namespace lossgrid
