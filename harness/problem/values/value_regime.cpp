// SPDX-License-Identifier: Apache-2.0
#include "harness/problem/values/value_regime.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace lossgrid {

Affine affine_of(const CaseSpec& spec) {
  switch (spec.values) {
    case Values::normal:
      return {0, spec.scale};
    case Values::flat:
      return {0, 1e-3 * spec.scale};
    case Values::all_negative:
      return {-200, spec.scale};
    case Values::offset:  // bf16 has a step of 2 at 256; at 1e4 every value would be the same
      return {spec.dtype == DType::bf16 ? 256.0 : 1e4, 1};
    case Values::far_offset:
      return {-1e12, 1};
    case Values::overflow:
      return {0, 100 * spec.scale};
    case Values::denormal:
      return {0, 1e-39};
    default:
      return {0, 1};
  }
}

double peak_logit(std::int64_t token, std::int64_t vocab) {
  constexpr std::array<double, 5> kOneMinusP{1e-1, 1e-2, 1e-3, 1e-5, 1e-7};
  const double rest = kOneMinusP[static_cast<std::size_t>(token % 5)];
  const double others = static_cast<double>(std::max<std::int64_t>(vocab - 1, 1));
  return std::log((1 - rest) / rest) + std::log(others) + 0.5;
}

double edge_bonus(std::int64_t vocab) {
  // e^bonus = V e^2, so that even a single edge holds most of the mass.
  return std::log(static_cast<double>(vocab)) + 2;
}

double lowest_number(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::lowest();
    case DType::bf16:
      return -0x1.fep127;
    default:
      return std::numeric_limits<float>::lowest();
  }
}

bool has_low_target(std::int64_t token) {
  return token % 3 == 1;
}

double late_max_shift(std::int64_t id, std::int64_t vocab) {
  return id < std::min<std::int64_t>(1024, vocab / 2) ? -50 : 0;
}

}  // namespace lossgrid
