// SPDX-License-Identifier: Apache-2.0
// RandomStream: counter-based random numbers. A value is a pure function of (seed, stream, index):
// any rank generates any element without communication.
//
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace lossgrid {

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Encrypts a 128-bit counter with a 64-bit key in ten rounds.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(right >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(left)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// One sequence of random numbers; each tensor of a case has a `stream` of its own.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint32_t stream)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        stream_(stream) {}

  /// Returns four independent words for the pair of indices (row, column block).
  PhiloxBlock block(std::uint64_t row, std::uint32_t column_block) const {
    return philox4x32({static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32),
                       column_block, stream_},
                      key_);
  }

  /// Returns a uniform number on [0, 1), of 32 bits.
  double uniform(std::uint64_t row, std::uint32_t column = 0) const {
    return block(row, column / 4)[column % 4] * 0x1p-32;
  }

  /// Returns a uniform integer on [0, n), n >= 1, by multiplication (bias below n / 2^32).
  std::uint32_t below(std::uint32_t n, std::uint64_t row, std::uint32_t column = 0) const {
    return static_cast<std::uint32_t>((std::uint64_t{block(row, column / 4)[column % 4]} * n) >>
                                      32);
  }

  /// Returns four standard normal values, for columns 4 * column_block .. + 3 (Box and Muller,
  /// 1958).
  std::array<float, 4> normals(std::uint64_t row, std::uint32_t column_block) const {
    const PhiloxBlock words = block(row, column_block);
    std::array<float, 4> out;
    for (int pair = 0; pair < 2; ++pair) {
      const float u = (static_cast<float>(words[2 * pair] >> 8) + 1.0f) * 0x1p-24f;  // (0, 1]
      const float angle = static_cast<float>(words[2 * pair + 1] >> 8) * (0x1p-24f * 6.28318531f);
      const float radius = std::sqrt(-2.0f * std::log(u));
      out[2 * pair] = radius * std::cos(angle);
      out[2 * pair + 1] = radius * std::sin(angle);
    }
    return out;
  }

  float normal(std::uint64_t row, std::uint32_t column = 0) const {
    return normals(row, column / 4)[column % 4];
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t stream_;
};

}  // namespace lossgrid
