// SPDX-License-Identifier: Apache-2.0
// Problems whose truth is of no use: what is trained on has no number, or no gradient.
#pragma once

#include <span>

#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Throws bad_input if a row that is trained on has no log-probability, or a divergence without a
/// gradient: names the sequence, the token and the values of the logits.
void require_trainable(const Problem& problem, std::span<const RowTruth> rows);

/// Throws bad_input if the loss or a metric is NaN, if d loss / d logprob or by a row term is not
/// finite, or if products of the gradients of hidden states and weight add up to more than a
/// float32 holds: names it and the first target of probability 0, if there is one.
void require_numbers(const Problem& problem, const Truth& truth);

}  // namespace lossgrid
