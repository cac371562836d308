// SPDX-License-Identifier: Apache-2.0
// 64-bit fingerprints of bytes. Not for security: they say whether two runs made the same bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace lossgrid {

/// Finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): every input bit reaches every output
/// bit.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Fingerprint of `bytes`; a `seed` that names their place makes sums of fingerprints order-free.
inline std::uint64_t fingerprint(std::span<const std::byte> bytes, std::uint64_t seed = 0) {
  std::uint64_t state = mix_bits(seed ^ bytes.size());
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    state = mix_bits(state ^ word);
  }
  std::uint64_t tail = 0;
  if (at < bytes.size()) std::memcpy(&tail, bytes.data() + at, bytes.size() - at);
  return mix_bits(state ^ tail);
}

}  // namespace lossgrid
