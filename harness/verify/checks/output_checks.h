// SPDX-License-Identifier: Apache-2.0
// Comparison of what a rank returns beside gradients with the truth: its numbers by token, its loss
// and its metrics.
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

/// Returns the checks "logprobs" and, of the columns that are there, "entropy", "vocab_min",
/// "vocab_max", "logsumexp" and "mean_logprob" of the outputs for the rows at `places`. Tensors
/// that are not in `outputs` have none.
std::vector<Check> check_tokens(const Problem& problem, const Truth& truth,
                                std::span<const RowPlace> places, const TokenOutputs& all,
                                const Outputs& outputs, int serial_adds, std::int64_t rank);

/// Returns the checks "loss" and "metric.NAME" for every metric of the truth. A metric that is
/// missing, that is not in `outputs` or that joins by another rule fails. The bound is the truth's
/// interval and one rounding to float32, or the declared rounding of a loss; counts and numbers of
/// the global batch are exact.
std::vector<Check> check_result(const ObjectiveTruth& truth, const ObjectiveResult& got,
                                const Outputs& outputs, std::int64_t rank,
                                const DeclaredRoundings& declared = {});

}  // namespace lossgrid
