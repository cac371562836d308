// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/trial/rank_trial.h"

#include "harness/comm/consensus.h"
#include "harness/comm/faults/fault_injection.h"
#include "harness/comm/faults/flight_recorder.h"
#include "harness/core/error.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/runner/rank_recorder.h"
#include "harness/runner/trial/device_world.h"
#include "harness/runner/trial/global_batch.h"
#include "harness/runner/trial/pipeline.h"
#include "harness/runner/trial/weight_gradient.h"

namespace lossgrid {
namespace {

/// Loss and metrics add up over microbatches; all have the same metrics.
void join_result(ObjectiveResult& into, const ObjectiveResult& other) {
  into.loss += other.loss;
  join_metrics(into.metrics, other.metrics);
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
  const ProcessGrid groups = make_process_grid(device_world.world(), setup.grid);
  RankCounts counts;
  RankResult result;
  const std::unique_ptr<Communicator> tp = count_calls(*groups.tp, counts.tp);
  const std::unique_ptr<Communicator> cp = count_calls(*groups.cp, counts.cp);
  const std::unique_ptr<Communicator> dp = count_calls(*groups.dp, result.batch_dp);
  const std::unique_ptr<Communicator> pp = count_calls(*groups.pp, result.batch_pp);
  const std::unique_ptr<Communicator> own_stage =
      setup.grid.pp > 1 ? world.split(groups.pp_rank(), world.rank(), "stage") : nullptr;
  Communicator& stage = own_stage ? *own_stage : world;
  // Ranks that do not run the same trial would meet in each other's collectives.
  require_same_text(world,
                    fmt::format("{} {} {}", format_case(setup.problem->spec),
                                format_grid(setup.grid), setup.implementation_text),
                    "trial");
  std::optional<FaultInjector> injector;
  std::unique_ptr<Communicator> tp_with_faults;
  std::unique_ptr<Communicator> cp_with_faults;
  std::unique_ptr<Communicator> pp_with_faults;
  if (setup.fault) {
    injector.emplace(*setup.fault, world.rank());
    tp_with_faults = inject_faults(*tp, *injector);
    cp_with_faults = inject_faults(*cp, *injector);
    pp_with_faults = inject_faults(*pp, *injector);
  }

  const std::vector<TrialPart>& parts = setup.parts.at(static_cast<std::size_t>(groups.dp_rank()));
  const Denominators denominators = count_denominators(parts, *setup.problem, *dp);
  const bool has_loss = groups.is_last_stage();
  std::vector<float> weight_gradient;
  if (has_loss) weight_gradient = first_weight_gradient(setup, groups.tp_rank());
  const PackRank rank{world.rank(),
                      groups.tp_rank(),
                      groups.cp_rank(),
                      device_world.for_tensors(tp_with_faults ? *tp_with_faults : *tp),
                      device_world.for_tensors(cp_with_faults ? *cp_with_faults : *cp),
                      stage,
                      counts,
                      weight_gradient,
                      injector ? &*injector : nullptr};
  Communicator& stages = pp_with_faults ? *pp_with_faults : *pp;
  std::int64_t microbatch = 0;
  for (const TrialPart& part : parts) {
    if (recorder) recorder->begin_step(microbatch);
    announce_shape(shape_of(*part.problem, setup.grid), microbatch++, stages);
    if (has_loss) {
      result.packs.push_back(run_pack(setup, part, denominators, rank, device));
      join_result(result.result, result.packs.back().result);
    }
    if (recorder) recorder->end_step();
  }
  result.peak_bytes = device.tracker().peak_bytes();
  share_result(result.result, stages);
  reduce_result(result.result, *dp);
  if (setup.grid.dp > 1) {
    result.predicted_batch_dp = batch_cost(*setup.problem, result.result);
  }
  if (setup.grid.pp > 1) {
    result.predicted_batch_pp = pipeline_cost(microbatch, result.result);
  }
  const StageScope comparison(Stage::compare);
  const Outputs outputs = setup.implementation->describe().outputs;
  result.checks = check_result(setup.truth->objective, result.result, outputs, world.rank(),
                               declared_roundings(setup));
  result.result_bits = fingerprint_result(result.result);
  if (setup.problem->spec.hidden > 0 && has_loss && outputs.gradients) {
    // What the harness sums for itself is not counted: `groups` and not the decorated ones.
    result.grad_weight = check_weight_sum(setup, groups, weight_gradient);
  }
  if (setup.keep_outputs) result.weight_gradient = std::move(weight_gradient);
  return result;
}

}  // namespace

RankResult run_rank(const TrialSetup& setup, Communicator& world) {
  RankResult result = run_parts(setup, world);
  result.stages = take_stage_times();
  return result;
}

}  // namespace lossgrid
