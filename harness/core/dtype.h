// SPDX-License-Identifier: Apache-2.0
// Element types and their unit roundoffs. bf16 is stored as its 16 bits; arithmetic is done in
// float, rounding is to nearest even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lossgrid {

enum class DType { f64, f32, bf16, i64, i32, u8 };

struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) {  // NaN stays NaN although low bits are cut off
      bits = static_cast<std::uint16_t>((word >> 16) | 0x0040u);
    } else {
      bits = static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  explicit operator double() const { return static_cast<float>(*this); }
  friend bool operator==(const bf16&, const bf16&) = default;
};

/// Returns the size of an element in bytes.
std::size_t size_of(DType dtype);
/// Returns "f64", "f32", "bf16", "i64", "i32" or "u8".
std::string_view name(DType dtype);

/// Returns u with |fl(x) - x| <= u |x|: 2^-53 (f64), 2^-24 (f32), 2^-8 (bf16). Only for floating
/// types.
double unit_roundoff(DType dtype);

/// Returns `value` rounded to `dtype` (floating types).
double round_to(DType dtype, double value);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

/// Calls `f(T{})` with T = double, float or bf16, the element type of a logits tensor.
template <typename F>
decltype(auto) dispatch_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::bf16:
      return f(bf16{});
    default:
      return f(float{});
  }
}

}  // namespace lossgrid
