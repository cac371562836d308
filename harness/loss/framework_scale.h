// SPDX-License-Identifier: Apache-2.0
// with_framework: an objective under the scaling convention of a framework, a product of factors on
// the loss. The convention belongs to the framework, not to the strategy: every strategy keeps the
// rule of the harness (the sum over CP and DP ranks is the gradient, a factor of 1). So the factor
// of the gather applies to all strategies, whether or not they gather log-probabilities. All
// factors act on d loss / d logprob, where every gradient starts: a mean of gradients equals a sum
// of gradients divided beforehand. They are applied in float64, so that factors such as 1/3 that
// cancel leave the bits of a float32 gradient unchanged.
#pragma once

#include <memory>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/problem/case/framework.h"

namespace lossgrid {

/// Wraps `objective`. Under counts of packs or ranks, its gradient is weighted by row, like the
/// gradient of a mean over tokens. The reported loss is the loss before the multiplier; metrics
/// that are sums or counts are multiplied. The truth is scaled too, so compare with the truth of
/// the plain objective.
std::shared_ptr<const Objective> with_framework(std::shared_ptr<const Objective> objective,
                                                const Framework& framework,
                                                const ScaleSizes& sizes);

/// Returns the counts of valid tokens by which the terms of each CP rank's rows of a pack may be
/// divided.
std::vector<TokenCounts> token_counts(const PackedBatch& batch, int cp);

}  // namespace lossgrid
