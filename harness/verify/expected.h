// SPDX-License-Identifier: Apache-2.0
// Results in the unsharded layout: the truth of a problem written as a bundle's expected.*, and a
// run's gathered results compared with what a bundle expects.
#pragma once

#include "harness/problem/bundle.h"
#include "harness/verify/check.h"
#include "harness/verify/truth.h"

namespace lossgrid {

/// The float64 truth with its full gradient [T, V], or those of hidden states and weight where the
/// problem starts from them.
BundleResults expected_results(const Problem& problem, const Truth& truth);

/// "expected.loss", "expected.logprobs", "expected.metric.NAME" and "expected.grad_logits", or
/// "expected.grad_hidden" and "expected.grad_weight": the same bounds as for the truth, around the
/// bundle's own values. `got.grad_logits` is there in any case.
std::vector<Check> check_expected(const Problem& problem, const Truth& truth, int serial_adds,
                                  const BundleResults& expected, const BundleResults& got);

/// Moves a gradient of logits on to hidden states and weight where the problem starts from them.
void project_gradient(const Problem& problem, BundleResults& results);

}  // namespace lossgrid
