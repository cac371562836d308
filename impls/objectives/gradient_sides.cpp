// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/gradient_sides.h"

#include <algorithm>

namespace lossgrid {

std::map<std::int64_t, std::vector<Enclosure>> gradient_sides(
    const std::function<std::vector<Enclosure>(const Sides&)>& gradient, bool selects) {
  std::vector<std::vector<Enclosure>> by_side;
  for (const Side actor : {Side::first, Side::second, Side::tie}) {
    for (const Side kl : {Side::first, Side::second, Side::tie}) {
      for (const Side weight : {Side::first, Side::second}) {
        by_side.push_back(gradient({actor, kl, weight, Side::first}));
        if (selects) by_side.push_back(gradient({actor, kl, weight, Side::second}));
      }
    }
  }
  return different_gradients(by_side);
}

std::map<std::int64_t, std::vector<Enclosure>> different_gradients(
    const std::vector<std::vector<Enclosure>>& by_side) {
  std::map<std::int64_t, std::vector<Enclosure>> sides_of;
  for (std::size_t row = 0; row < by_side[0].size(); ++row) {
    std::vector<Enclosure> sides;
    for (const std::vector<Enclosure>& of_sides : by_side) {
      const Enclosure& own = of_sides[row];
      const bool is_known = std::any_of(sides.begin(), sides.end(), [&](const Enclosure& side) {
        return side.low == own.low && side.high == own.high;
      });
      if (!is_known) sides.push_back(own);
    }
    if (sides.size() > 1) sides_of.emplace(static_cast<std::int64_t>(row), std::move(sides));
  }
  return sides_of;
}

}  // namespace lossgrid
