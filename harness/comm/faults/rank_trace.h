// SPDX-License-Identifier: Apache-2.0
// Where a rank was when somebody asked: in which phase of a trial, whether its body was back, and
// which collectives it had entered last. Plain values, made of breadcrumbs (breadcrumbs.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lossgrid {

/// What a rank of a trial is at; each of its packs goes through setup to check.
enum class RankPhase {
  none,      // not begun, or no trial
  setup,     // groups, denominators, inputs
  plan,      // workspaces
  forward,   // with all of the backward pass, where an implementation does both in one sweep
  backward,  // empty there
  check,     // all behind it: comparisons, the second run, what ranks tell each other of the batch
};
inline constexpr std::array kRankPhases{RankPhase::setup, RankPhase::plan, RankPhase::forward,
                                        RankPhase::backward, RankPhase::check};

/// "setup", ...; empty for none.
std::string_view name(RankPhase phase);

/// How the body of a rank ended.
enum class RankEnd { running, returned, threw };

/// A collective that a rank entered.
struct TracedCall {
  std::string call;          // "all_reduce sum of 8 f32"
  std::string communicator;  // "tp"
  std::uint64_t number = 0;  // from 1, within the communicator
  bool done = false;         // and left
};

/// "all_reduce sum of 8 f32, call #5 of 'tp', entered", or "..., done".
std::string describe(const TracedCall& call);

struct RankTrace {
  int rank = 0;
  bool known = false;  // false: nothing is there to read
  RankPhase phase = RankPhase::none;
  RankEnd end = RankEnd::running;
  std::vector<TracedCall> calls;  // the last ones, newest last

  /// Whether it has entered a collective and not come out of it.
  bool in_collective() const { return !calls.empty() && !calls.back().done; }
};

}  // namespace lossgrid
