// SPDX-License-Identifier: Apache-2.0
#include "harness/comm/faults/rank_trace.h"

#include <fmt/format.h>

namespace lossgrid {

std::string_view name(RankPhase phase) {
  switch (phase) {
    case RankPhase::none:
      return "";
    case RankPhase::setup:
      return "setup";
    case RankPhase::plan:
      return "plan";
    case RankPhase::forward:
      return "forward";
    case RankPhase::backward:
      return "backward";
    case RankPhase::check:
      return "check";
  }
  return "";
}

std::string describe(const TracedCall& call) {
  return fmt::format("{}, call #{} of '{}', {}", call.call, call.number, call.communicator,
                     call.done ? "done" : "entered");
}

}  // namespace lossgrid
