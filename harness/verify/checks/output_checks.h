// SPDX-License-Identifier: Apache-2.0
// Comparison of a rank's outputs other than gradients with the truth: its numbers by token, its
// loss and its metrics.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "harness/loss/loss_implementation.h"
#include "harness/verify/checks/check.h"
#include "harness/verify/checks/row_places.h"
#include "harness/verify/truth/declared_roundings.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// True if the log-probability of this row has a truth: the row predicts a token, its logits are
/// not poisoned, and they have probabilities (no NaN, not -inf alone).
bool has_logprob(const Problem& problem, const RowTruth& row);

/// Returns the checks of the outputs for the rows at `places`: "logprobs", "entropy", "vocab_min",
/// "vocab_max", "logsumexp" and "mean_logprob". A tensor that is missing in `outputs` has no check.
std::vector<Check> check_tokens(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const TokenOutputs& all,
                                const Outputs& outputs, int serial_adds, std::int64_t rank);

/// Returns the checks "loss" and "metric.NAME" for every metric of the truth. A metric fails if it
/// is missing in either of the two or joins by another rule. The bound is the truth's interval plus
/// one rounding to float32, or plus the declared rounding of a loss; counts and numbers of the
/// global batch are exact.
std::vector<Check> check_result(const ObjectiveTruth& truth, const ObjectiveResult& got,
                                const Outputs& outputs, std::int64_t rank,
                                const DeclaredRoundings& declared = {});

}  // namespace lossgrid
