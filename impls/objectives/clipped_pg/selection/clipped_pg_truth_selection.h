// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: tokens that all valid tokens of the batch select,
// independent of clipped_pg_selection.h. The rules have no gradient and so stand beside the tape.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/loss/enclosure.h"
#include "harness/loss/tape.h"
#include "impls/objectives/clipped_pg/clipped_pg_options.h"
#include "impls/objectives/clipped_pg/clipped_pg_truth_numbers.h"

namespace lossgrid {

/// The numbers of one valid token that the rules read.
struct SelectableToken {
  Enclosure x;  // its log-probability
  Enclosure entropy;
  Enclosure ratio;
  Enclosure second_moment;  // (prev - generation)^2
  double advantage = 0;
  std::int64_t position = 0;  // in its sequence
};

/// For every valid token 1 if it is selected, 0 if not, both if it may be either.
struct TrueSelection {
  ByToken<Enclosure> tokens;
  bool straddles = false;
};

/// Returns 1 for 0, 0 for 1 and both for both, without a rounding.
Enclosure opposite(const Enclosure& a);

/// `side`: of the rules, where numbers may be on either; the second selects. Adds the branches
/// taken to `branches`.
TrueSelection true_selection(const ClippedPgOptions& options,
                             const ByToken<SelectableToken>& tokens, Side side,
                             std::map<std::string, std::int64_t>& branches);

}  // namespace lossgrid
