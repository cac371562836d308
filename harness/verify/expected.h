// SPDX-License-Identifier: Apache-2.0
// Results in the unsharded layout: the truth of a problem written as a bundle's expected.*, and a
// run's gathered results compared with what a bundle expects.
#pragma once

#include "harness/problem/bundle/bundle.h"
#include "harness/verify/check.h"
#include "harness/verify/declared_roundings.h"
#include "harness/verify/truth.h"

namespace lossgrid {

/// The float64 truth with its gradient [T, V], or those of hidden states and weight, of all rows
/// and ids, where the problem starts from them.
BundleResults expected_results(const Problem& problem, const Truth& truth);

/// "expected.loss", "expected.logprobs", "expected.entropy", "expected.metric.NAME" and
/// "expected.grad_logits", or "expected.grad_hidden" and "expected.grad_weight": the same bounds as
/// for the truth, around the bundle's own values; of a sampled truth, for the rows and ids that are
/// there. Of what is empty in `got` there is no check, and a metric that is missing fails. Only the
/// loss and the gradients of the two read what is declared of roundings.
std::vector<Check> check_expected(const Problem& problem, const Truth& truth, int serial_adds,
                                  const BundleResults& expected, const BundleResults& got,
                                  const DeclaredRoundings& declared);

}  // namespace lossgrid
