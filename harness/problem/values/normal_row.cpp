// SPDX-License-Identifier: Apache-2.0
// Plain loops, which the compiler vectorises for every instruction set (Google Highway chooses at
// run time). No product and sum may be fused (-ffp-contract=off): bits are the same on all of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/problem/values/normal_row.cpp"
#include <hwy/foreach_target.h>  // compiles this file for every instruction set
//
#include <algorithm>
#include <bit>
#include <cstring>

#include <hwy/highway.h>

#include "harness/problem/values/normal_row.h"

HWY_BEFORE_NAMESPACE();
namespace lossgrid {
namespace HWY_NAMESPACE {
namespace {

constexpr int kBlocks = 16;           // Philox blocks side by side
constexpr int kTile = 4 * kBlocks;    // columns made from them
using Lane = std::uint32_t[kBlocks];  // one word of every block

struct Words {
  Lane word[4];
};

/// Philox4x32-10 (see core/philox.h) on counters (row, block, stream) for 16 consecutive blocks.
void philox_tile(std::uint64_t seed, std::uint32_t stream, std::uint64_t row,
                 std::uint32_t first_block, Words& words) {
  auto& [a, b, c, d] = words.word;
  for (int k = 0; k < kBlocks; ++k) {
    a[k] = static_cast<std::uint32_t>(row);
    b[k] = static_cast<std::uint32_t>(row >> 32);
    c[k] = first_block + static_cast<std::uint32_t>(k);
    d[k] = stream;
  }
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 1  // unrolled in full, the loop would no longer be vectorised
    for (int k = 0; k < kBlocks; ++k) {
      const std::uint64_t left = std::uint64_t{0xD2511F53u} * a[k];
      const std::uint64_t right = std::uint64_t{0xCD9E8D57u} * c[k];
      a[k] = static_cast<std::uint32_t>(right >> 32) ^ b[k] ^ key0;
      c[k] = static_cast<std::uint32_t>(left >> 32) ^ d[k] ^ key1;
      b[k] = static_cast<std::uint32_t>(right);
      d[k] = static_cast<std::uint32_t>(left);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/// Returns sqrt(-2 ln u) for u = (word / 2^8 + 1) / 2^24, in (0, 1]. Relative error about 1e-6.
inline float radius_of(std::uint32_t word) {
  const float u = static_cast<float>(static_cast<std::int32_t>(word >> 8) + 1) * 0x1p-24f;
  // u = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m + 1).
  const auto bits = std::bit_cast<std::int32_t>(u);
  const std::int32_t exponent = (bits - 0x3f3504f3) >> 23;
  const float m = std::bit_cast<float>(bits - exponent * (1 << 23));
  const float s = (m - 1.0f) / (m + 1.0f);
  const float s2 = s * s;
  const float series = 1.0f + s2 * (1.0f / 3 + s2 * (0.2f + s2 * (1.0f / 7 + s2 * (1.0f / 9))));
  const float x = -2.0f * (static_cast<float>(exponent) * 0.693147181f + 2.0f * s * series);
  // x / sqrt(x) by Newton's iteration, from the root's halved exponent: std::sqrt sets errno, and
  // that keeps compilers from vectorising it. Unsigned, as u = 1 makes x = -0 and the difference
  // wrap.
  const auto halved = static_cast<std::uint32_t>(std::bit_cast<std::int32_t>(x) >> 1);
  float root = std::bit_cast<float>(0x5f3759dfu - halved);
  for (int step = 0; step < 3; ++step) root = root * (1.5f - 0.5f * x * root * root);
  return x * root;
}

/// Makes the normal values of a tile (Box and Muller, 1958): word w of block k makes column
/// 16 w + k; words 0 and 1 form a pair, and so do 2 and 3.
void normal_tile(const Words& words, float* out) {
  for (int pair = 0; pair < 2; ++pair) {
    const Lane& first = words.word[2 * pair];
    const Lane& second = words.word[2 * pair + 1];
    float* x_out = out + 2 * pair * kBlocks;
    float* y_out = x_out + kBlocks;
    for (int k = 0; k < kBlocks; ++k) {
      const float radius = radius_of(first[k]);
      // The two top bits choose the quadrant, the next 24 the angle t in [-pi/4, pi/4) about its
      // middle; Taylor series to t^9 and t^8, error below 1e-7.
      const auto quadrant = second[k] >> 30;
      const auto fraction = static_cast<std::int32_t>((second[k] >> 6) & 0xffffffu) - 0x800000;
      const float t = static_cast<float>(fraction) * (0x1p-24f * 1.57079633f);
      const float t2 = t * t;
      const float sine =
          t * (1.0f +
               t2 * (-1.0f / 6 + t2 * (1.0f / 120 + t2 * (-1.0f / 5040 + t2 * (1.0f / 362880)))));
      const float cosine =
          1.0f + t2 * (-0.5f + t2 * (1.0f / 24 + t2 * (-1.0f / 720 + t2 * (1.0f / 40320))));
      const bool swapped = (quadrant & 1u) != 0;
      const float x = swapped ? sine : cosine;
      const float y = swapped ? cosine : sine;
      // cos(t + q pi/2) is negative in quadrants 1 and 2, sin in 2 and 3.
      const auto x_sign = static_cast<float>(1 - static_cast<std::int32_t>((quadrant + 1) & 2u));
      const auto y_sign = static_cast<float>(1 - static_cast<std::int32_t>(quadrant & 2u));
      x_out[k] = radius * x_sign * x;
      y_out[k] = radius * y_sign * y;
    }
  }
}

}  // namespace

void fill(std::uint64_t seed, std::uint32_t stream, std::uint64_t row, std::int64_t begin,
          std::span<float> out) {
  std::int64_t tile_index = begin / kTile;
  auto skip = static_cast<std::size_t>(begin % kTile);
  for (std::size_t at = 0; at < out.size(); ++tile_index, skip = 0) {
    Words words;
    philox_tile(seed, stream, row, static_cast<std::uint32_t>(tile_index * kBlocks), words);
    const std::size_t count = std::min(out.size() - at, kTile - skip);
    if (count == kTile) {
      normal_tile(words, out.data() + at);
    } else {
      float tile[kTile];
      normal_tile(words, tile);
      std::memcpy(out.data() + at, tile + skip, count * sizeof(float));
    }
    at += count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lossgrid
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lossgrid {

HWY_EXPORT(fill);

void fill_normals(std::uint64_t seed, std::uint32_t stream, std::uint64_t row, std::int64_t begin,
                  std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(fill)(seed, stream, row, begin, out);
}

}  // namespace lossgrid
#endif
