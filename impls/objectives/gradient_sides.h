// SPDX-License-Identifier: Apache-2.0
// gradient_sides: the intervals of d loss / d logprob at rows where the formula of an objective may
// be on either side of a switch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "harness/loss/tape.h"

namespace lossgrid {

/// Sides of the switches that a truth takes where a number may be on either: of those that the
/// actor loss, the KL, the importance weights with rejections, and the selection of tokens have.
struct Sides {
  Side actor = Side::either;
  Side kl = Side::either;
  Side weight = Side::either;
  Side selection = Side::either;
};

/// Calls gradient(sides), which returns [rows], for every choice of sides; of the selection's if it
/// is `selects`. Returns the different intervals of each row that has more than one.
std::map<std::int64_t, std::vector<Enclosure>> gradient_sides(
    const std::function<std::vector<Enclosure>(const Sides&)>& gradient, bool selects);

/// Returns the same of the gradients that are given, [rows] each.
std::map<std::int64_t, std::vector<Enclosure>> different_gradients(
    const std::vector<std::vector<Enclosure>>& by_side);

}  // namespace lossgrid
