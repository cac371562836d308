// SPDX-License-Identifier: Apache-2.0
// Results in the unsharded layout: the truth of a problem as a bundle's expected.*, and the
// comparison of a run's gathered results with the expected.* of a bundle.
#pragma once

#include "harness/problem/bundle/bundle.h"
#include "harness/verify/checks/check.h"
#include "harness/verify/truth/declared_roundings.h"
#include "harness/verify/truth/truth.h"

namespace lossgrid {

/// Returns the float64 truth with its gradient [T, V]; of a problem that starts from hidden states
/// with the gradients of hidden states and weight, of all rows and ids.
BundleResults expected_results(const Problem& problem, const Truth& truth);

/// Returns [T, V] d loss / d logits, of given logits or of products that nothing transforms.
std::vector<double> expected_grad_logits(const Problem& problem, const Truth& truth);

/// Returns the checks "expected.loss", "expected.logprobs", "expected.entropy",
/// "expected.metric.NAME" and "expected.grad_logits", or "expected.grad_hidden" and
/// "expected.grad_weight", with a bias "expected.grad_bias". Bounds are those of the truth, around
/// the bundle's own values; of a sampled truth, for the rows and ids in the sample. A tensor that
/// is empty in `got` has no check; a metric that is missing fails. `declared` is read for the loss
/// and for the gradients of hidden states and weight only.
std::vector<Check> check_expected(const Problem& problem, const Truth& truth, int serial_adds,
                                  const BundleResults& expected, const BundleResults& got,
                                  const DeclaredRoundings& declared);

}  // namespace lossgrid
