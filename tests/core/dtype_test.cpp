// SPDX-License-Identifier: Apache-2.0
#include "harness/core/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

constexpr std::array<DType, 6> kAll{DType::f64, DType::f32, DType::bf16,
                                    DType::i64, DType::i32, DType::u8};

bf16 from_bits(std::uint32_t bits) {
  bf16 out;
  out.bits = static_cast<std::uint16_t>(bits);
  return out;
}

/// Returns the magnitude of bf16 number `bits`, from the definition of the format; for infinity,
/// the number that would follow the largest finite number, so that distances to infinity make
/// sense.
double magnitude(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 7);
  const double fraction = (bits & 0x7f) / 128.0;
  return exponent == 0 ? std::ldexp(fraction, -126) : std::ldexp(1.0 + fraction, exponent - 127);
}

/// Returns the nearest bf16 by comparing distances in double, ties to even.
std::uint32_t nearest_bits(std::uint32_t below, double value) {
  const double down = value - magnitude(below);
  const double up = magnitude(below + 1) - value;
  if (down != up) return down < up ? below : below + 1;
  return below % 2 == 0 ? below : below + 1;
}

// Tests every bf16 number with the floats that follow it: the number itself, its neighbours, and
// both sides of the middle. In between, rounding is the same. Truncation, ties away and ties up all
// fail here.
TEST(DType, Bf16RoundsToNearestEvenEverywhere) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    EXPECT_EQ(static_cast<double>(from_bits(bits)), magnitude(bits));
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = std::bit_cast<float>((bits << 16) | low);
      const std::uint32_t want = nearest_bits(bits, value);
      ASSERT_EQ(bf16(value).bits, want) << "float " << value;
      ASSERT_EQ(bf16(-value).bits, want | 0x8000u) << "float " << -value;
    }
  }
}

TEST(DType, Bf16ToFloatAndBackKeepsAllBits) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = static_cast<float>(from_bits(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), bits << 16);
    if (!std::isnan(value)) {
      ASSERT_EQ(bf16(value).bits, bits);
    }
  }
}

TEST(DType, Bf16KeepsSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bf16(infinity).bits, 0x7f80);
  EXPECT_EQ(bf16(-infinity).bits, 0xff80);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds up, to infinity
  EXPECT_EQ(bf16(-0.0f).bits, 0x8000);
  // NaNs whose payload is in the dropped bits, or would carry into the exponent or sign.
  for (const std::uint32_t word : {0x7f800001u, 0x7fffffffu, 0x7fc00000u, 0xff800001u, 0xffffffffu,
                                   0x7f80ffffu, 0x7fff8000u}) {
    const bf16 value(std::bit_cast<float>(word));
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << std::hex << word;
    EXPECT_EQ(value.bits >> 15, word >> 31) << std::hex << word;
  }
}

TEST(DType, HasNamesAndSizes) {
  constexpr std::array<std::size_t, 6> kSizes{8, 4, 2, 8, 4, 1};
  constexpr std::array<std::string_view, 6> kNames{"f64", "f32", "bf16", "i64", "i32", "u8"};
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    EXPECT_EQ(size_of(kAll[i]), kSizes[i]);
    EXPECT_EQ(name(kAll[i]), kNames[i]);
  }
}

TEST(DType, TypesMatchTheirSizes) {
  EXPECT_EQ(size_of(DTypeOf<double>::value), sizeof(double));
  EXPECT_EQ(size_of(DTypeOf<float>::value), sizeof(float));
  EXPECT_EQ(size_of(DTypeOf<bf16>::value), sizeof(bf16));
  EXPECT_EQ(size_of(DTypeOf<std::int64_t>::value), sizeof(std::int64_t));
  EXPECT_EQ(size_of(DTypeOf<std::int32_t>::value), sizeof(std::int32_t));
  EXPECT_EQ(size_of(DTypeOf<std::uint8_t>::value), sizeof(std::uint8_t));
}

// 1 + u is a tie that rounds to 1, 1 + 3u a tie that rounds up, so that u is the unit roundoff and
// no other power.
TEST(DType, UnitRoundoffIsHalfASpacing) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double u = unit_roundoff(dtype);
    EXPECT_EQ(round_to(dtype, 1.0 + 2 * u), 1.0 + 2 * u);
    EXPECT_EQ(round_to(dtype, 1.0 + u), 1.0);
    EXPECT_EQ(round_to(dtype, 1.0 + 3 * u), 1.0 + 4 * u);
  }
  EXPECT_EQ(unit_roundoff(DType::f64), std::numeric_limits<double>::epsilon() / 2);
  EXPECT_EQ(round_to(DType::f64, 0.1), 0.1);
}

TEST(DType, DispatchCallsWithTheElementType) {
  const auto size = [](auto zero) { return sizeof(zero); };
  EXPECT_EQ(dispatch_floating(DType::f64, size), 8u);
  EXPECT_EQ(dispatch_floating(DType::f32, size), 4u);
  EXPECT_EQ(dispatch_floating(DType::bf16, size), 2u);
  EXPECT_TRUE(dispatch_floating(DType::bf16,
                                [](auto zero) { return std::is_same_v<decltype(zero), bf16>; }));
}

}  // namespace
}  // namespace lossgrid
