// SPDX-License-Identifier: Apache-2.0
// with_framework: an objective under the scaling convention of a framework, whose parts multiply
// the loss one after the other. The convention belongs to the stack, not to the strategy: every
// strategy keeps the rule of the harness (the sum over CP and DP ranks is the gradient, a factor of
// 1), so the factor of the gather applies to strategies that gather log-probabilities and to
// others. All factors act on d loss / d logprob, where every gradient starts: a mean of gradients
// is the sum of gradients divided before. They are applied in float64, so that factors such as 1/3
// that cancel leave the bits of a float32 gradient unchanged.
#pragma once

#include <memory>
#include <vector>

#include "harness/loss/objective.h"
#include "harness/problem/case/framework.h"

namespace lossgrid {

/// Wraps `objective`. Under counts of packs or ranks its gradient is weighed by row, as a mean over
/// tokens would be. The reported loss is the one before the multiplier; of the metrics, sums and
/// counts are multiplied. The truth is scaled too: compare with that of the plain objective.
std::shared_ptr<const Objective> with_framework(std::shared_ptr<const Objective> objective,
                                                const Framework& framework,
                                                const ScaleSizes& sizes);

/// Returns the valid tokens that the terms of each CP rank's rows of a pack may be divided by.
std::vector<TokenCounts> token_counts(const PackedBatch& batch, int cp);

}  // namespace lossgrid
