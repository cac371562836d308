// SPDX-License-Identifier: Apache-2.0
// Places of the rows of a batch in its trial.
#pragma once

#include <vector>

#include "harness/runner/rank/trial_setup.h"
#include "harness/verify/diagnosis/row_home.h"

namespace lossgrid {

/// Returns the homes [T] of the rows of the whole batch.
std::vector<RowHome> row_homes(const TrialSetup& setup);

}  // namespace lossgrid
