// SPDX-License-Identifier: Apache-2.0
// Merges the findings of all ranks into a record: checks to their worst element, invariants of one
// and of several ranks, costs against their predictions. States facts; judge() decides.
#pragma once

#include <vector>

#include "harness/runner/rank/rank_trial.h"
#include "harness/runner/verdict/trial_verdict.h"
#include "reports/record/record.h"

namespace lossgrid {

CheckRecord to_record(const Check& check);

/// Adds checks and invariants of the outputs of one pack, of a trial or a timing, to `record` and
/// returns them as facts; without costs and determinism.
TrialFacts merge_outputs(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                         TrialRecord& record);

/// Fills checks, invariants, determinism, memory, communication, times and fingerprints of
/// `record`. Returns the facts for its verdict.
TrialFacts merge_ranks(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                       TrialRecord& record);

}  // namespace lossgrid
