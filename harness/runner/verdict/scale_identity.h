// SPDX-License-Identifier: Apache-2.0
// scale_identity: the invariant that the factors of a framework, and the counts that it divides
// terms by, give every term the weight of a mean over the global batch.
#pragma once

#include "harness/runner/rank/trial_setup.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Adds the invariant where the case states a framework. Metrics are compared with their truth and
/// are no part of it.
void add_scale_identity(const TrialSetup& setup, TrialRecord& record);

}  // namespace lossgrid
