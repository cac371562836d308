// SPDX-License-Identifier: Apache-2.0
// Causes of wrong results that other truths show: an alternative that the results of two sizes of a
// case fit, within all bounds.
#pragma once

#include <string>
#include <vector>

#include "harness/runner/trial/trial.h"

namespace lossgrid {

/// A trial that kept its results.
struct KeptTrial {
  const TrialSetup& setup;
  const TrialOutcome& outcome;
};

/// Adds to `sentences`, before others, that about the alternatives which both trials fit, of the
/// simplest kind that does. If there is no sentence then, and the function returns a loss that is
/// right in both: that the gradients are not those of it.
void add_causes_in_both(const KeptTrial& first, const KeptTrial& second, bool returns_loss,
                        std::vector<std::string>& sentences);

}  // namespace lossgrid
