// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/gradient_side.h"

#include <algorithm>
#include <cmath>

#include "harness/verify/logit_gradient.h"

namespace lossgrid {

const Enclosure& nearest_side(std::span<const Enclosure> sides, double g) {
  const auto distance = [g](const Enclosure& side) {
    return std::max({0.0, side.low - g, g - side.high});
  };
  return *std::min_element(sides.begin(), sides.end(),
                           [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
}

const Enclosure& gradient_side(std::span<const Enclosure> sides, const RowTruth& row,
                               const RowGradientTruth& gradient, std::int64_t begin,
                               std::span<const double> logits, std::span<const double> got) {
  const LogitGradient of_terms(row, {Enclosure(), gradient.terms});
  // got = g ([v = y] - p_v) + the gradient of the row terms: g by least squares.
  double products = 0;
  double squares = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    const bool is_target = begin + static_cast<std::int64_t>(k) == row.target;
    const double p = std::exp(logits[k] - row.max) / row.sum;
    const double direction = is_target ? row.others / row.sum : -p;
    products += (got[k] - of_terms.at(logits[k], p, is_target)) * direction;
    squares += direction * direction;
  }
  return nearest_side(sides, squares > 0 ? products / squares : 0);
}

}  // namespace lossgrid
