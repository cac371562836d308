// SPDX-License-Identifier: Apache-2.0
// unjudged_outputs_of: outputs of a loaded function that a trial compares in part only, since its
// loss does not depend on them.
#pragma once

#include <map>
#include <string>

#include "harness/runner/rank/trial_setup.h"

namespace lossgrid {

/// Returns the state (reports/record/unjudged.h) by output, without those whose value and gradient
/// the checks of the trial decide.
std::map<std::string, std::string> unjudged_outputs_of(const TrialSetup& setup);

}  // namespace lossgrid
