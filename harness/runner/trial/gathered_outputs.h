// SPDX-License-Identifier: Apache-2.0
// What all ranks of a trial made, put together in the unsharded layout: for --out and for bundles
// that say what they expect.
#pragma once

#include <vector>

#include "harness/problem/bundle/bundle.h"
#include "harness/runner/trial/rank_trial.h"

namespace lossgrid {

/// Of a trial with keep_outputs: log-probabilities and entropies [T], and the gradient of logits
/// [T, V] or those of hidden states [T, H] and weight [V, H]. That of the weight is what the trial
/// added. Only what the implementation gives (ImplementationTraits::outputs).
BundleResults gather_outputs(const TrialSetup& setup, const std::vector<RankResult>& ranks);

}  // namespace lossgrid
