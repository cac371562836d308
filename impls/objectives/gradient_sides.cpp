// SPDX-License-Identifier: Apache-2.0
#include "impls/objectives/gradient_sides.h"

#include <algorithm>

namespace lossgrid {

namespace {

/// Returns every choice of sides.
std::vector<Sides> all_sides(const SideKinds& kinds) {
  const std::vector<Side> three{Side::first, Side::second, Side::tie};
  const std::vector<Side> two{Side::first, Side::second};
  std::vector<Sides> all;
  for (const Side actor : three) {
    for (const Side kl : kinds.kl ? three : std::vector<Side>{Side::first}) {
      for (const Side weight : two) {
        for (const Side selection : kinds.selects ? two : std::vector<Side>{Side::first}) {
          if (!kinds.shares_ratio) {
            all.push_back({actor, kl, weight, selection, actor, false});
            continue;
          }
          for (const Side ratio : two) {
            all.push_back({actor, kl, weight, selection, ratio, false});
            all.push_back({actor, kl, weight, selection, ratio, true});
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

std::map<std::int64_t, std::vector<Enclosure>> gradient_sides(
    const std::function<std::vector<Enclosure>(const Sides&)>& gradient, const SideKinds& kinds) {
  std::vector<std::vector<Enclosure>> by_side;
  for (const Sides& sides : all_sides(kinds)) by_side.push_back(gradient(sides));
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
