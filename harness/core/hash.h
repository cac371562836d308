// SPDX-License-Identifier: Apache-2.0
// 64-bit fingerprints of bytes, to compare the bits of two runs. Not for security.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace lossgrid {

/// Mixes bits by the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every input bit
/// reaches every output bit.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Returns the fingerprint of `bytes`. With the place of the bytes as `seed`, a sum of fingerprints
/// does not depend on the order of addition. Four independent lanes make it fast on whole logits
/// tensors.
inline std::uint64_t fingerprint(std::span<const std::byte> bytes, std::uint64_t seed = 0) {
  constexpr std::size_t kLanes = 4;
  std::uint64_t lanes[kLanes];
  for (std::size_t k = 0; k < kLanes; ++k) lanes[k] = mix_bits(seed ^ bytes.size()) + k;
  std::size_t at = 0;
  for (; at + 8 * kLanes <= bytes.size(); at += 8 * kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + at + 8 * k, 8);
      lanes[k] = (lanes[k] ^ word) * 0x9E3779B97F4A7C15u;
      lanes[k] ^= lanes[k] >> 32;
    }
  }
  std::uint64_t state = seed;
  for (const std::uint64_t lane : lanes) state = mix_bits(state ^ lane);
  for (; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    state = mix_bits(state ^ word);
  }
  return state;
}

}  // namespace lossgrid
