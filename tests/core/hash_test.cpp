// SPDX-License-Identifier: Apache-2.0
#include "harness/core/hash.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace lossgrid {
namespace {

// First outputs of SplitMix64 from state 0.
TEST(Hash, MixBitsKnownAnswers) {
  EXPECT_EQ(mix_bits(0), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(mix_bits(0x9E3779B97F4A7C15u), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(mix_bits(0x9E3779B97F4A7C15u * 2), 0x06C45D188009454Fu);
}

// A flipped bit in any place, even in an incomplete last word, changes the fingerprint.
TEST(Hash, EveryBitCounts) {
  for (const std::size_t size : {1u, 7u, 8u, 9u, 24u, 31u, 32u, 40u, 71u}) {
    std::vector<std::byte> bytes(size, std::byte{0x5a});
    std::set<std::uint64_t> seen{fingerprint(bytes)};
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      seen.insert(fingerprint(bytes));
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
    EXPECT_EQ(seen.size(), 8 * size + 1) << size;
  }
}

// Zeros lose lengths and places most easily.
TEST(Hash, LengthOrderAndSeedCount) {
  std::set<std::uint64_t> seen;
  const std::vector<std::byte> zeros(32);
  for (std::size_t size = 0; size <= 32; ++size) {
    seen.insert(fingerprint(std::span(zeros.data(), size)));
  }
  EXPECT_EQ(seen.size(), 33u);

  std::vector<std::byte> words(16);
  words[0] = std::byte{1};
  const std::uint64_t front = fingerprint(words);
  words[0] = std::byte{0};
  words[8] = std::byte{1};
  EXPECT_NE(fingerprint(words), front);
  EXPECT_NE(fingerprint(words, 1), fingerprint(words, 2));
}

TEST(Hash, SameBytesSameFingerprintAtAnyAlignment) {
  std::vector<std::byte> shifted(41);
  for (std::size_t i = 0; i < 40; ++i) shifted[i + 1] = static_cast<std::byte>(i);
  const std::vector<std::byte> plain(shifted.begin() + 1, shifted.end());
  EXPECT_EQ(fingerprint(std::span(shifted).subspan(1)), fingerprint(plain));
}

// One flipped bit changes half of the fingerprint's bits, within five standard errors.
TEST(Hash, Avalanche) {
  double flipped = 0;
  constexpr int kPairs = 64 * 64;
  for (std::uint64_t x = 0; x < 64; ++x) {
    for (int bit = 0; bit < 64; ++bit) {
      flipped += std::popcount(mix_bits(x) ^ mix_bits(x ^ (std::uint64_t{1} << bit)));
    }
  }
  EXPECT_NEAR(flipped / kPairs, 32.0, 5 * 4.0 / 64);
}

}  // namespace
}  // namespace lossgrid
