// SPDX-License-Identifier: Apache-2.0
#include "harness/core/dtype.h"

#include <array>
#include <cmath>

namespace lossgrid {
namespace {

struct Traits {
  std::string_view name;
  std::size_t size;
};

/// In the order of DType.
constexpr std::array<Traits, 6> kTraits{
    {{"f64", 8}, {"f32", 4}, {"bf16", 2}, {"i64", 8}, {"i32", 4}, {"u8", 1}}};

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
