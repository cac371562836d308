// SPDX-License-Identifier: Apache-2.0
// An objective inside of a framework's convention: what it hands to a strategy is multiplied by
// what the parts of the framework multiply by, one after the other. The convention is that of the
// stack and not of the strategy: every strategy keeps to the rule of the harness (the sum over CP
// and DP ranks is the gradient, a factor of 1), so the factor of the gather is applied to all of
// them, whether they gather log-probabilities or not. All factors act on d loss / d logprob, where
// the gradient of everything starts: a mean of gradients is the sum of gradients that were divided
// before. They are applied in float64, so that factors such as 1/3 that cancel leave the bits of a
// float32 gradient as they were.
#pragma once

#include <memory>

#include "harness/loss/objective.h"
#include "harness/problem/case/framework.h"

namespace lossgrid {

/// The loss that is reported is the one before the multiplier; of the metrics, sums and counts are
/// multiplied. The truth is scaled too, as it is what an implementation asks for: compare with that
/// of the plain objective.
std::shared_ptr<const Objective> with_framework(std::shared_ptr<const Objective> objective,
                                                const Framework& framework,
                                                const ScaleSizes& sizes);

}  // namespace lossgrid
