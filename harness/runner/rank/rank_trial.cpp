// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/rank_trial.h"

#include <algorithm>

#include "harness/comm/consensus.h"
#include "harness/comm/faults/fault_injection.h"
#include "harness/comm/faults/flight_recorder.h"
#include "harness/core/error.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/runner/job/rank_recorder.h"
#include "harness/runner/rank/device_world.h"
#include "harness/runner/rank/global_batch.h"
#include "harness/runner/rank/pack_trial.h"
#include "harness/runner/rank/pipeline.h"
#include "harness/verify/checks/output_checks.h"

namespace lossgrid {
namespace {

/// Adds loss and metrics of a microbatch; all have the same metrics.
void join_result(ObjectiveResult& into, const ObjectiveResult& other) {
  into.loss += other.loss;
  join_metrics(into.metrics, other.metrics);
}

MeasureCalls counts_into(CollectiveCounts& counts) {
  return [&counts](Communicator& group) { return count_calls(group, counts); };
}

/// Removes what another rank of the group accounts for: metrics stay, of no elements.
void clear_result(ObjectiveResult& result) {
  result.loss = 0;
  for (auto& [name, metric] : result.metrics) {
    metric.count = 0;
    if (metric.reduction != Reduction::global) metric.amount = 0;
  }
}

/// Returns the parts that the rank counts, so that its dp group counts every part once: on a
/// dynamic grid those of which it has the first rows.
std::vector<TrialPart> counted_parts(const TrialSetup& setup, int rank) {
  std::vector<TrialPart> parts;
  for (const TrialMicrobatch& microbatch : setup.microbatches) {
    const bool is_first = microbatch.grid.cp_rank(rank) == 0;
    if (is_first || !setup.grid.is_dynamic()) parts.push_back(microbatch.part_of(rank));
  }
  return parts;
}

/// Returns the peak of the phases of all packs; of a rank without packs that of all buffers.
std::int64_t peak_of(const std::vector<PackFindings>& packs, const Device& device) {
  if (packs.empty()) return device.tracker().peak_bytes();
  std::int64_t peak = 0;
  for (const PackFindings& pack : packs) {
    for (const PhaseMemory& phase : pack.memory) peak = std::max(peak, phase.peak_bytes);
  }
  return peak;
}

/// Throws on ranks that do not run the same trial: they would enter each other's collectives.
void require_same_trial(const TrialSetup& setup, Communicator& world) {
  require_same_text(world,
                    fmt::format("{} {} {}", format_case(setup.problem->spec),
                                format_grid(setup.grid), setup.implementation_text),
                    "trial");
}

std::vector<StepReport> steps_of(const std::vector<PackFindings>& packs) {
  std::vector<StepReport> steps;
  for (const PackFindings& pack : packs) steps.push_back(pack.step);
  return steps;
}

RankResult run_parts(const TrialSetup& setup, Communicator& world) {
  const StageScope scope(Stage::run);
  std::optional<RankRecorder> recorder;  // outlives all buffers
  if (setup.recording) recorder.emplace(*setup.recording, setup.grid, world.rank());
  enter_phase(RankPhase::setup);
  const int working = setup.grid.stage_ranks();  // while the last stage works the others wait
  share_cores(working, world.size() - working);
  DeviceWorld device_world(setup, world);
  Device& device = device_world.device();
  RankCounts counts;
  RankResult result;
  RankCommunicators communicators(world, device_world, setup.grid, setup.fault,
                                  {.tp = counts_into(counts.tp),
                                   .cp = counts_into(counts.cp),
                                   .dp = counts_into(result.batch_dp),
                                   .pp = counts_into(result.batch_pp)});
  const ProcessGrid& groups = communicators.harness();
  require_same_trial(setup, world);

  const std::vector<TrialPart> parts = counted_parts(setup, world.rank());
  GlobalCounts global = count_global_batch(parts, *setup.problem, communicators.dp());
  global.input_sum = sum_inputs(parts, *setup.objective, communicators.dp());
  const bool has_loss = groups.is_last_stage();
  std::vector<float> weight_gradient;
  if (has_loss) weight_gradient = first_weight_gradient(setup, groups.tp_rank());
  std::int64_t index = 0;
  for (const TrialMicrobatch& microbatch : setup.microbatches) {
    if (recorder) recorder->begin_step(index);
    const Grid& grid = microbatch.grid;
    const TrialPart& part = microbatch.part_of(world.rank());
    announce_shape(shape_of(*part.problem, grid), index++, communicators.pp());
    if (!has_loss) continue;
    const PackRank rank{.rank = world.rank(),
                        .tp_rank = groups.tp_rank(),
                        .grid = grid,
                        .cp_rank = grid.cp_rank(world.rank()),
                        .communicators = communicators,
                        .counts = counts,
                        .weight_gradient = weight_gradient};
    result.packs.push_back(run_pack(setup, part, global, rank, device));
    ObjectiveResult of_pack = result.packs.back().result;
    if (setup.grid.is_dynamic() && rank.cp_rank > 0) clear_result(of_pack);
    join_result(result.result, of_pack);
  }
  result.peak_bytes = peak_of(result.packs, device);
  share_result(result.result, communicators.pp());
  reduce_result(result.result, communicators.dp());
  if (communicators.dp().size() > 1) {
    result.predicted_batch_dp = batch_cost(*setup.problem, setup.objective->needs(), result.result);
  }
  if (setup.grid.pp > 1) {
    result.predicted_batch_pp = pipeline_cost(index, result.result);
  }
  setup.objective->add_derived(result.result.metrics);
  const StageScope comparison(Stage::compare);
  const Outputs outputs = setup.implementation->describe().outputs;
  result.checks = check_result(setup.truth->objective, result.result, outputs, world.rank(),
                               declared_roundings(setup));
  result.result_bits = fingerprint_result(result.result);
  if (setup.problem->spec.hidden > 0 && has_loss && outputs.gradients) {
    // Sums of the harness itself are not counted.
    const WeightPlaces places = weight_places(setup.problem->spec, setup.grid, groups.tp_rank());
    const HeldPlaces held = held_by(setup, groups.tp_rank(), steps_of(result.packs));
    judge_weight_gradient(setup, groups, split_gradient(places, weight_gradient), held, result);
    if (setup.keep_outputs && !held.empty()) {
      weight_gradient = as_summand(setup, groups, held, std::move(weight_gradient));
    }
  }
  if (setup.keep_outputs) result.weight_gradient = std::move(weight_gradient);
  return result;
}

}  // namespace

HeldPlaces held_by(const TrialSetup& setup, int tp_rank, std::span<const StepReport> steps) {
  const WeightGradientParts parts = weight_gradient_parts(setup);
  if (parts == WeightGradientParts::summands) return {};
  const WeightPlaces places = weight_places(setup.problem->spec, setup.grid, tp_rank);
  HeldPlaces held(static_cast<std::size_t>(places.all_elements()), 1);
  if (parts == WeightGradientParts::replicas) return held;
  for (const StepReport& step : steps) {  // a slice has to be the same in every step
    const HeldPlaces of_step = held_places(places, step.held);
    for (std::size_t k = 0; k < held.size(); ++k) held[k] = held[k] & of_step[k];
  }
  return held;
}

void judge_weight_gradient(const TrialSetup& setup, const ProcessGrid& groups,
                           const WeightGradient& gradient, const HeldPlaces& held,
                           RankResult& result) {
  std::optional<WeightFindings> found = check_weight_sum(setup, groups, gradient, held);
  if (!found) return;
  result.replicas = std::move(found->replicas);
  result.sequences = std::move(found->sequences);
  result.slices = std::move(found->slices);
  result.grad_weight = std::move(found->weight);
  result.grad_bias = std::move(found->bias);
}

RankResult run_rank(const TrialSetup& setup, Communicator& world) {
  RankResult result = run_parts(setup, world);
  result.stages = take_stage_times();
  return result;
}

}  // namespace lossgrid
