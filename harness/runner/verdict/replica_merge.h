// SPDX-License-Identifier: Apache-2.0
// Numbers that the ranks over DP and CP should have alike after a train step that reduces by itself
// (ImplementationTraits::weight_gradient): the gradient that they hold, the loss and the metrics
// that they report.
#pragma once

#include <vector>

#include "harness/runner/rank/rank_trial.h"
#include "harness/verify/diagnosis/replica_sentences.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Adds the invariants about these numbers; none where the harness reduces.
void merge_replicas(const TrialSetup& setup, const std::vector<RankResult>& ranks,
                    TrialRecord& record);

/// Returns gradient and loss of the ranks; nothing where the harness reduces. `record` has the
/// checks and invariants of the trial.
std::vector<ReplicaFacts> replica_facts(const TrialSetup& setup,
                                        const std::vector<RankResult>& ranks,
                                        const TrialRecord& record);

}  // namespace lossgrid
