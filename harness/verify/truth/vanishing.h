// SPDX-License-Identifier: Apache-2.0
// Numbers of float32 that a right implementation may count as 0: denormal ones, of which kernels
// flush operands and results.
#pragma once

#include <limits>

namespace lossgrid {

/// f: a smaller number may count as 0, as an operand and as a result.
inline constexpr double kSmallestNormalF32 = std::numeric_limits<float>::min();

/// A smaller number with an exponential as a factor may count as 0. An exponential is made of a
/// power of two and what that leaves, below 2; where the latter comes last, the product of all
/// other factors vanishes below f, and with it a result of up to 2 f.
inline constexpr double kVanishingF32 = 2 * kSmallestNormalF32;

}  // namespace lossgrid
