// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: tokens that keep their policy term, by the weights of
// themselves and of their sequence. The rules have no gradient and so stand beside the tape.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "impls/objectives/clipped_pg/weights/clipped_pg_truth_weights.h"

namespace lossgrid {

/// For every valid token 1 if it keeps its policy term, 0 if it is rejected, both if it may be
/// either; the second is of rules by token alone.
struct TrueKeeps {
  ByToken<Enclosure> tokens;
  ByToken<Enclosure> alone;
  bool straddles = false;
};

/// The numbers of one valid token that the rules read.
struct RejectionToken {
  Enclosure log_weight;  // prev - generation
  Enclosure behaviour;   // generation - current
  double advantage = 0;
  bool has_generation = true;  // false: no rule reads its numbers
};

/// `side`: of the thresholds, where numbers may be on either; the first keeps. Adds the branches
/// taken to `branches`.
TrueKeeps true_keeps(const ClippedPgOptions& options, const ByToken<RejectionToken>& tokens,
                     Side side, std::map<std::string, std::int64_t>& branches);

}  // namespace lossgrid
