// SPDX-License-Identifier: Apache-2.0
// Internal to the truth of `clipped_pg`: the policy terms of tokens, independent of
// policy_losses.h.
#pragma once

#include "harness/loss/enclosure.h"
#include "harness/loss/tape.h"
#include "impls/objectives/clipped_pg/clipped_pg_truth_numbers.h"
#include "impls/objectives/clipped_pg/clipped_pg_truth_part.h"

namespace lossgrid {

/// Returns the log-probability that the ratio of a token is taken to.
Var true_anchor(const ClippedPgOptions& options, const TrueToken& token);

/// Returns the policy terms of tokens, without importance weights, and counts their branches.
/// `ratios`: with the number that stands in their place, `clipped`: the same within the clip
/// bounds, `selected`: 1 for tokens that are selected, else 0.
ByToken<Var> true_policy_terms(TruthState& state, const ByToken<Var>& ratios,
                               const ByToken<Var>& clipped, const ByToken<Enclosure>& selected);

}  // namespace lossgrid
