// SPDX-License-Identifier: Apache-2.0
#include "harness/core/dtype.h"

#include <array>
#include <cmath>

namespace lossgrid {
namespace {

struct Traits {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Traits, 6> kTraits{{{DType::f64, "f64", 8},
                                         {DType::f32, "f32", 4},
                                         {DType::bf16, "bf16", 2},
                                         {DType::i64, "i64", 8},
                                         {DType::i32, "i32", 4},
                                         {DType::u8, "u8", 1}}};

const Traits& traits(DType dtype) {
  return kTraits[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::size_t size_of(DType dtype) {
  return traits(dtype).size;
}

std::string_view name(DType dtype) {
  return traits(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (const Traits& entry : kTraits) {
    if (entry.name == text) return entry.dtype;
  }
  return std::nullopt;
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::ldexp(1.0, -53);
    case DType::bf16:
      return std::ldexp(1.0, -8);
    default:
      return std::ldexp(1.0, -24);
  }
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::bf16:
      return static_cast<double>(bf16(static_cast<float>(value)));
    default:
      return static_cast<float>(value);
  }
}

}  // namespace lossgrid
