// SPDX-License-Identifier: Apache-2.0
// Results in the unsharded layout: the truth of a problem written as a bundle's expected.*, and a
// run's gathered results compared with what a bundle expects.
#pragma once

#include "harness/problem/bundle.h"
#include "harness/verify/check.h"
#include "harness/verify/truth.h"

namespace lossgrid {

/// The float64 truth with its full gradient [T, V].
BundleResults expected_results(const Problem& problem, const Truth& truth);

/// "expected.loss", "expected.logprobs", "expected.grad_logits", "expected.metric.NAME": the same
/// bounds as for the truth, around the bundle's own values.
std::vector<Check> check_expected(const Problem& problem, const Truth& truth, int serial_adds,
                                  const BundleResults& expected, const BundleResults& got);

}  // namespace lossgrid
