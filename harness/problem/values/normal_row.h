// SPDX-License-Identifier: Apache-2.0
// Many normal random numbers of one row at once: what makes a row of logits. Sixteen Philox blocks
// go through every step side by side, and logarithm, root and sine are polynomials in plain float
// arithmetic: compilers vectorise all of it, and no mathematical library has a say in the bits.
// A value is a pure function of (seed, stream, row, column).
#pragma once

#include <cstdint>
#include <span>

namespace lossgrid {

/// out[k] := N(0, 1) for column begin + k of `row`; 0 <= begin, begin + size <= 2^32. |value|
/// < 5.8.
void fill_normals(std::uint64_t seed, std::uint32_t stream, std::uint64_t row, std::int64_t begin,
                  std::span<float> out);

}  // namespace lossgrid
