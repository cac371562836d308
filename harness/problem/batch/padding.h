// SPDX-License-Identifier: Apache-2.0
// `Padding`: multiples that a packed batch is padded to, beside those of the grid. They come from a
// case (pad_multiple, bin_multiple) or from an implementation that needs them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lossgrid {

struct Padding {
  std::int64_t sequence = 1;  // multiple of the padded length of every sequence
  std::int64_t pack = 1;      // multiple of the length of the padded pack

  bool is_any() const { return sequence == 1 && pack == 1; }
  bool operator==(const Padding&) const = default;
};

/// Returns the least common multiple. Throws bad_input with `what` when it overflows.
std::int64_t checked_lcm(std::int64_t a, std::int64_t b, std::string_view what);

/// Returns the padding that satisfies both: least common multiples. Throws bad_input when one
/// overflows.
Padding joined(const Padding& a, const Padding& b);

/// Returns "sequences to multiples of 16 and packs to multiples of 64"; empty when any padding will
/// do.
std::string describe(const Padding& padding);

}  // namespace lossgrid
