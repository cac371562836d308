// SPDX-License-Identifier: Apache-2.0
// The part of one rank in a trial: agrees with the others on what runs, counts the denominators,
// takes its microbatches one after the other, and joins loss and metrics over them and over dp
// ranks. The gradient of an lm_head's weight goes through all of them and is judged at the end.
// Ranks of pipeline stages before the last enter the same collectives of the batch and have no
// packs.
#pragma once

#include <optional>
#include <vector>

#include "harness/core/stage_clock.h"
#include "harness/runner/rank/pack_findings.h"
#include "harness/runner/rank/trial_setup.h"
#include "harness/runner/rank/weight_gradient.h"

namespace lossgrid {

struct RankResult {
  ObjectiveResult result;     // of the global batch
  std::vector<Check> checks;  // of loss and metrics
  std::uint64_t result_bits = 0;
  std::vector<PackFindings> packs;  // one for each microbatch, none before the last stage
  std::int64_t peak_bytes = 0;      // of all buffers of the rank, over the trial
  CollectiveCounts batch_dp;        // before the first and after the last microbatch
  CollectiveCounts predicted_batch_dp;
  CollectiveCounts batch_pp;  // before each and after the last microbatch
  CollectiveCounts predicted_batch_pp;
  // These two are about the sum over CP and DP, on one rank for each shard.
  std::optional<LinearFindings> grad_weight;
  std::optional<LinearFindings> grad_bias;
  std::optional<ReplicaFindings> replicas;  // of a train step; on the same rank, as the next one
  std::optional<SequenceParts> sequences;
  std::optional<SliceParts> slices;
  std::vector<float> weight_gradient;  // of this rank's shard (WeightPlaces), kept for --out only
  StageTimes stages;                   // of a trial
};

/// Compares the sums of the ranks' gradients of weight and bias, or what each holds of them
/// (`held`, empty for summands). Collective (check_weight_sum).
void judge_weight_gradient(const TrialSetup& setup, const ProcessGrid& groups,
                           const WeightGradient& gradient, const HeldPlaces& held,
                           RankResult& result);

/// Returns the places that a rank holds of the gradient of the weight by the reports on its train
/// steps, empty where the ranks hold summands.
HeldPlaces held_by(const TrialSetup& setup, int tp_rank, std::span<const StepReport> steps);

/// Runs a rank of a trial. Collective over `world`.
RankResult run_rank(const TrialSetup& setup, Communicator& world);

}  // namespace lossgrid
