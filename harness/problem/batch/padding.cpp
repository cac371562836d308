// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/batch/padding.h"

#include <numeric>

#include <fmt/format.h>

#include "harness/core/text.h"

namespace lossgrid {

std::int64_t checked_lcm(std::int64_t a, std::int64_t b, std::string_view what) {
  return checked_product(a / std::gcd(a, b), b, what);
}

Padding joined(const Padding& a, const Padding& b) {
  return {checked_lcm(a.sequence, b.sequence, "lcm of the multiples of sequences"),
          checked_lcm(a.pack, b.pack, "lcm of the multiples of packs")};
}

std::string describe(const Padding& padding) {
  std::string text;
  if (padding.sequence > 1) text = fmt::format("sequences to multiples of {}", padding.sequence);
  if (padding.pack == 1) return text;
  if (!text.empty()) text += " and ";
  return text + fmt::format("packs to multiples of {}", padding.pack);
}

}  // namespace lossgrid
