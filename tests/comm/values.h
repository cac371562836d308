// SPDX-License-Identifier: Apache-2.0
// Values of ranks in tests of collectives: functions of the rank and the place alone, so that every
// rank can compute those of all others.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "harness/core/dtype.h"
#include "harness/core/hash.h"

namespace lossgrid {

/// Returns the value of rank `rank` at `i` in test `salt`: magnitudes differ, so that a sum in
/// another order or precision has other bits.
template <typename T>
T value_of(int rank, std::size_t i, std::uint64_t salt = 0) {
  const std::uint64_t bits = mix_bits(mix_bits(salt + static_cast<std::uint64_t>(rank)) + i);
  if constexpr (std::is_floating_point_v<T>) {
    const double mantissa = static_cast<double>(bits >> 11) * 0x1p-53 - 0.5;
    return static_cast<T>(std::ldexp(mantissa, static_cast<int>(bits % 24)));
  } else if constexpr (std::is_same_v<T, bf16>) {
    return bf16(static_cast<float>(static_cast<int>(bits % 4001) - 2000) / 16.0f);
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T>
std::vector<T> values_of(int rank, std::size_t count, std::uint64_t salt = 0) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = value_of<T>(rank, i, salt);
  return out;
}

/// Compares bits, not values: -0 is not 0.
template <typename T>
bool same_bits(const T* a, const T* b, std::size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(T)) == 0;
}

}  // namespace lossgrid
