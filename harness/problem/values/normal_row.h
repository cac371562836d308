// SPDX-License-Identifier: Apache-2.0
// Normal random numbers of one row, many at once, for rows of logits. Sixteen Philox blocks go
// through every step side by side, and logarithm, root and sine are polynomials in plain float
// arithmetic: compilers vectorise all of it, and the bits do not depend on a mathematical library.
// A value is a pure function of (seed, stream, row, column).
#pragma once

#include <cstdint>
#include <span>

namespace lossgrid {

/// Sets out[k] to the N(0, 1) of column begin + k of `row`, of absolute value below 5.8. Requires
/// 0 <= begin and begin + out.size() <= 2^32.
void fill_normals(std::uint64_t seed, std::uint32_t stream, std::uint64_t row, std::int64_t begin,
                  std::span<float> out);

}  // namespace lossgrid
