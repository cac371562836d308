// SPDX-License-Identifier: Apache-2.0
// Results in the unsharded layout: the truth of a problem as expected.* of a bundle, and the
// comparison of a run's gathered results with the expected.* of a bundle.
#pragma once

#include "harness/problem/bundle/bundle.h"
#include "harness/verify/checks/check.h"
#include "harness/verify/truth/declared_roundings.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Returns the float64 truth with its gradient [T, V]. For a problem that starts from hidden
/// states, the gradients are instead those of hidden states and weight, for all rows and ids.
BundleResults expected_results(const Problem& problem, const Truth& truth);

/// Returns d loss / d logits [T, V], for given logits or for products without a transform.
std::vector<double> expected_grad_logits(const Problem& problem, const Truth& truth);

/// Returns the checks "expected.loss", "expected.logprobs", "expected.entropy",
/// "expected.metric.NAME" and "expected.grad_logits", or "expected.grad_hidden" and
/// "expected.grad_weight", with a bias "expected.grad_bias". The bounds of the truth apply around
/// the bundle's values; with a sampled truth, only rows and ids in the sample are compared. A
/// tensor that is empty in `got` has no check; a missing metric fails. `declared` matters only for
/// the loss and for the gradients of hidden states and weight.
std::vector<Check> check_expected(const Problem& problem, const Truth& truth, int serial_adds,
                                  const BundleResults& expected, const BundleResults& got,
                                  const DeclaredRoundings& declared);

}  // namespace lossgrid
