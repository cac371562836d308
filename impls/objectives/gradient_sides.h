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
/// actor loss, the KL, the importance weights with rejections, the selection of tokens, and the
/// bounds of a ratio's logarithm have.
struct Sides {
  Side actor = Side::either;
  Side kl = Side::either;
  Side weight = Side::either;
  Side selection = Side::either;
  Side ratio = Side::either;
  // True: tokens with a negative advantage take the other side of the clip. Above the clip range a
  // ratio that several tokens share is clipped for one sign of the advantage only.
  bool opposite = false;

  /// Returns the side of the clip for one sign of the advantage.
  Side clip(bool is_negative) const {
    if (!opposite || !is_negative) return actor;
    return actor == Side::first ? Side::second : actor == Side::second ? Side::first : actor;
  }
};

/// Kinds of switches that a formula has beside those of actor loss and weights.
struct SideKinds {
  bool kl = true;
  bool selects = false;
  bool shares_ratio = false;  // several tokens have one ratio
};

/// Calls gradient(sides), which returns [rows], for every choice of sides of these kinds. Returns
/// the different intervals of each row that has more than one.
std::map<std::int64_t, std::vector<Enclosure>> gradient_sides(
    const std::function<std::vector<Enclosure>(const Sides&)>& gradient, const SideKinds& kinds);

/// Returns the same of the gradients that are given, [rows] each.
std::map<std::int64_t, std::vector<Enclosure>> different_gradients(
    const std::vector<std::vector<Enclosure>>& by_side);

}  // namespace lossgrid
