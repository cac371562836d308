// SPDX-License-Identifier: Apache-2.0
// Reductions: the ways to make a failing trial smaller. Pure functions of the trial.
#pragma once

#include <vector>

#include "harness/hunt/failing_trial.h"

namespace lossgrid {

/// Returns trials smaller than this one, the largest steps first: fewer grids and ranks, fewer
/// options, keys at their defaults, fewer and shorter sequences, fewer ids. Each breaks no rule of
/// cases; the objective may refuse it.
std::vector<FailingTrial> smaller_trials(const FailingTrial& trial);

}  // namespace lossgrid
