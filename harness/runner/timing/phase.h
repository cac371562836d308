// SPDX-License-Identifier: Apache-2.0
// Phases of an implementation that timings measure, and their names in reports.
#pragma once

#include <array>
#include <string_view>

namespace lossgrid {

enum class Phase { forward, backward, forward_backward };

inline constexpr std::array kTimedPhases{Phase::forward, Phase::backward, Phase::forward_backward};

/// Returns "forward", "backward" or "forward_backward".
constexpr std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::forward_backward:
      return "forward_backward";
  }
  return "?";
}

}  // namespace lossgrid
