// SPDX-License-Identifier: Apache-2.0
// RankTrace: the position of a rank at some moment: its phase of a trial, the end of its body, and
// its last collectives. Plain values, read from a flight recorder (flight_recorder.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

/// Phases of a rank in a trial; each of its packs goes through setup to check.
enum class RankPhase {
  none,      // not begun, or no trial
  setup,     // groups, denominators, inputs
  plan,      // workspaces
  forward,   // including the backward pass of a fused forward-backward
  backward,  // empty in a fused forward-backward
  check,     // comparisons, the second run, exchange of results between ranks
};
inline constexpr std::array kRankPhases{RankPhase::setup, RankPhase::plan, RankPhase::forward,
                                        RankPhase::backward, RankPhase::check};

/// Returns "setup", ...; "" for none.
std::string_view name(RankPhase phase);

/// State of the body of a rank.
enum class RankEnd { running, returned, threw };

/// A collective that a rank entered.
struct TracedCall {
  std::string call;          // "all_reduce sum of 8 f32"
  std::string communicator;  // "tp"
  std::uint64_t number = 0;  // from 1, within the communicator
  bool done = false;         // false: entered and not left
};

/// Returns "all_reduce sum of 8 f32, call #5 of 'tp', entered", or "..., done".
std::string describe(const TracedCall& call);

struct RankTrace {
  int rank = 0;
  bool known = false;  // false: there is no record of the rank
  RankPhase phase = RankPhase::none;
  RankEnd end = RankEnd::running;
  std::vector<TracedCall> calls;  // the last ones, newest last

  /// Returns true if the rank has entered a collective and not left it.
  bool in_collective() const { return !calls.empty() && !calls.back().done; }
};

}  // namespace lossgrid
