// SPDX-License-Identifier: Apache-2.0
// Outputs of all ranks of a trial, gathered into the unsharded layout: for --out and for bundles
// with expected values.
#pragma once

#include <vector>

#include "harness/problem/bundle/bundle.h"
#include "harness/runner/rank/rank_trial.h"

namespace lossgrid {

/// Returns the outputs of a trial with keep_outputs, as far as the implementation gives them
/// (ImplementationTraits::outputs): log-probabilities and entropies [T], and the gradient of logits
/// [T, V] or those of hidden states [T, H] and weight [V, H], of which the initial value is
/// subtracted.
BundleResults gather_outputs(const TrialSetup& setup, const std::vector<RankResult>& ranks);

}  // namespace lossgrid
