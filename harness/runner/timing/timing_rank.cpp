// SPDX-License-Identifier: Apache-2.0
// SharedTensors holds the tensors of all implementations on a rank; TimedImplementation is one of
// them as an item of the sampler. Buffers are poisoned before the last iteration of each: outputs
// of the implementation before it must not pass as its own. All work launched before a sample is
// done when it begins, and all work that the sample launches when it ends.
#include "harness/runner/timing/timing_rank.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/comm/timed_communicator.h"
#include "harness/core/rank_observer.h"
#include "harness/core/text.h"
#include "harness/device/kernel/rank_threads.h"
#include "harness/device/memory/host_view.h"
#include "harness/measure/cache.h"
#include "harness/planner/plan/memory_plan.h"
#include "harness/runner/job/rank_recorder.h"
#include "harness/runner/rank/device_world.h"
#include "harness/runner/rank/global_batch.h"
#include "harness/runner/rank/pack_run.h"
#include "harness/runner/rank/rank_communicators.h"
#include "harness/runner/rank/weight_gradient.h"
#include "harness/verify/checks/output_checks.h"

namespace lossgrid {
namespace {

/// Returns the bytes that are read before a sample so that caches hold nothing of use.
std::int64_t walk_bytes(CacheMode cache, Backend backend) {
  return cache == CacheMode::cold ? cache_walk_bytes(backend) : 0;
}

bool any_in_place(const std::vector<TrialSetup>& setups) {
  return std::any_of(setups.begin(), setups.end(), [](const TrialSetup& setup) {
    return setup.implementation->describe().in_place;
  });
}

bool any_external(const std::vector<TrialSetup>& setups) {
  return std::any_of(setups.begin(), setups.end(), [](const TrialSetup& setup) {
    return setup.implementation->describe().is_external;
  });
}

/// Device, communicators and tensors that all implementations share on a rank.
class SharedTensors {
 public:
  SharedTensors(const TimingPlan& plan, Communicator& world)
      : problem_(*plan.setups.front().problem),
        device_world_(plan.setups.front(), world),
        communicators_(world, device_world_, plan.setups.front().grid, plan.fault,
                       {.tp = timed(), .cp = timed()}),
        weight_gradient_(first_weight_gradient(plan.setups.front(), groups().tp_rank())),
        rank_{.rank = world.rank(),
              .tp_rank = groups().tp_rank(),
              .grid = groups().grid,
              .cp_rank = groups().cp_rank(),
              .communicators = communicators_,
              .counts = no_counts_,
              .weight_gradient = weight_gradient_},
        batch_(pack(problem_, groups().grid)),
        loss_problem_(make_loss_problem(problem_, batch_, groups().grid,
                                        *plan.setups.front().objective,
                                        plan.setups.front().backend)),
        rows_(place_tokens(problem_, loss_problem_, rank_.cp_rank, LogprobScope::shard).rows),
        tensors_(generate_tensors()),
        tokens_(device(),
                static_cast<std::size_t>(loss_problem_.rows() * loss_problem_.token_columns()),
                "token_outputs") {
    const std::vector<TrialPart>& parts = plan.setups.front().microbatches.front().parts;
    GlobalCounts global = count_global_batch(parts, problem_, communicators_.dp());
    global.input_sum = sum_inputs(parts, loss_problem_.objective, communicators_.dp());
    global.give_to(problem_, batch_);
    if (any_in_place(plan.setups)) tensors_->keep_inputs();
    input_bits_ = tensors_->input_bits();
    tensors_->allocate_gradients();
  }
  SharedTensors(const SharedTensors&) = delete;
  SharedTensors& operator=(const SharedTensors&) = delete;

  const Problem& problem() const { return problem_; }
  const LossProblem& loss_problem() const { return loss_problem_; }
  const ProcessGrid& groups() const { return communicators_.harness(); }
  const PackRank& rank() const { return rank_; }
  RankCommunicators& communicators() { return communicators_; }
  Device& device() { return device_world_.device(); }
  RankTensors& tensors() { return *tensors_; }
  const std::int64_t& communication_ns() const { return communication_ns_; }

  /// Restores the inputs before an iteration, also behind an implementation in place.
  void begin_iteration(bool in_place, bool poisoned) {
    const StageScope scope(Stage::generate);
    if (overwritten_) tensors_->restore_inputs();
    overwritten_ = in_place;
    tensors_->set_in_place(in_place);
    if (!poisoned) return;
    tokens_.buffer().poison();
    tensors_->restore_gradients();
  }

  std::span<float> tokens() { return {tokens_.data(), tokens_.size()}; }

  /// Begins a phase, outside of samples: a fault may strike here.
  void begin(RankPhase phase) { strike_at(phase, communicators_, device()); }

  RankPack rank_pack() { return {problem_, loss_problem_, rank_, device(), rows_}; }

  bool inputs_as_before() const {
    const StageScope scope(Stage::bits);
    return tensors_->input_bits() == input_bits_;
  }

 private:
  /// Times calls without the copies of payloads through the host.
  MeasureCalls timed() {
    return [this](Communicator& group) { return time_calls(group, communication_ns_); };
  }

  std::unique_ptr<RankTensors> generate_tensors() {
    const StageScope scope(Stage::generate);
    return make_rank_tensors(rank_pack());
  }

  const Problem& problem_;
  DeviceWorld device_world_;
  std::int64_t communication_ns_ = 0;
  RankCommunicators communicators_;
  RankCounts no_counts_;
  std::vector<float> weight_gradient_;  // as before the first iteration
  PackRank rank_;
  PackedBatch batch_;
  LossProblem loss_problem_;
  std::vector<RowPlace> rows_;
  std::unique_ptr<RankTensors> tensors_;
  DeviceArray<float> tokens_;  // for the most that an implementation returns
  std::uint64_t input_bits_ = 0;
  bool overwritten_ = false;
};

/// One implementation on one rank, with its plan.
class TimedImplementation final : public SampledItem {
 public:
  TimedImplementation(const TrialSetup& setup, CacheMode cache, SharedTensors& shared)
      : setup_(setup),
        shared_(shared),
        run_(setup, shared.problem(), *setup.truth, shared.loss_problem(), shared.rank(),
             shared.device()),
        phases_(timed_phases(run_.description())) {
    RankContext context = run_.context();
    context.timed = true;
    context.walk_bytes = walk_bytes(cache, shared.loss_problem().backend);
    run_.plan(context);
    for (const Phase phase : phases_) {
      observed_names_.push_back(fmt::format("{} {}", setup.implementation_text, name(phase)));
    }
  }

  std::size_t steps() const override { return phases_.size(); }

  void prepare(std::size_t step, bool last) override {
    if (phases_[step] != Phase::backward) run_.begin(RankPhase::forward);
    if (phases_[step] != Phase::forward) run_.begin(RankPhase::backward);
    if (phases_[step] == Phase::backward) return;  // goes on where forward ended
    shared_.begin_iteration(run_.description().in_place, last);
    run_.take(shared_.tensors(), shared_.tokens().first(run_.token_values()));
  }

  void run(std::size_t step) override {
    RankObserver* observer = rank_observer();
    if (observer != nullptr) observer->begin_phase(observed_names_[step]);
    device_work() = {};
    run_phase(phases_[step]);
    if (observer != nullptr) observer->end_phase();
  }

  std::optional<std::int64_t> measured_ns() const override {
    const auto measured = run_.plan().measured();
    if (!measured) return std::nullopt;
    return measured->time_ns;
  }

  void finish(std::size_t step) override {
    work_.push_back(device_work());
    if (phases_[step] != Phase::backward) run_.spoil(RankPhase::forward);
    if (phases_[step] == Phase::forward) return;
    run_.spoil(RankPhase::backward);
    run_.begin(RankPhase::check);
    findings_.push_back(check());
  }

  std::vector<RankResult> take_findings() { return std::move(findings_); }
  /// Returns the work of the last round, by phase.
  std::vector<DeviceWork> take_work() { return std::move(work_); }

 private:
  void run_phase(Phase phase) {
    switch (phase) {
      case Phase::forward:
        return run_.forward();
      case Phase::backward:
        return run_.backward();
      case Phase::forward_backward:
        return run_.forward_backward();
    }
  }

  HostView gradient_view(const float* gradient, std::int64_t elements) const {
    return {shared_.device(), gradient, static_cast<std::size_t>(elements) * sizeof(float)};
  }

  RankResult check() {
    const StageScope scope(Stage::compare);
    RankResult result;
    PackFindings& findings = result.packs.emplace_back();
    run_.check(shared_.tensors(), findings);
    PackChecks::check_memory(run_.description().in_place || shared_.inputs_as_before(),
                             shared_.device(), findings);
    result.result = run_.outputs().result;
    setup_.objective->add_derived(result.result.metrics);
    result.checks = check_result(setup_.truth->objective, result.result, run_.description().outputs,
                                 shared_.rank().rank, declared_roundings(setup_));
    result.result_bits = fingerprint_result(result.result);
    if (shared_.loss_problem().from_hidden() && run_.description().outputs.gradients) {
      const LossProblem& problem = shared_.loss_problem();
      const HostView weight = gradient_view(run_.gradients().weight, problem.weight_elements());
      WeightGradient gradient{weight.as<const float>()};
      std::optional<HostView> bias;
      if (problem.head.has_bias) {
        bias.emplace(gradient_view(run_.gradients().bias, problem.bias_elements()));
        gradient.bias = bias->as<const float>();
      }
      const ForeignPlan* foreign = run_.foreign();
      const std::vector<StepReport> steps{foreign == nullptr ? StepReport() : foreign->step()};
      judge_weight_gradient(setup_, shared_.groups(), gradient,
                            held_by(setup_, shared_.groups().tp_rank(), steps), result);
    }
    return result;
  }

  const TrialSetup& setup_;
  SharedTensors& shared_;
  PackRun run_;
  std::vector<Phase> phases_;
  std::vector<std::string> observed_names_;  // by phase
  std::vector<RankResult> findings_;
  std::vector<DeviceWork> work_;
};

}  // namespace

std::vector<Phase> timed_phases(const ImplementationTraits& description) {
  if (description.one_sweep) return {Phase::forward_backward};
  return {kTimedPhases.begin(), kTimedPhases.end()};
}

namespace {

/// Waits for all launches; a device does not note fills as pending.
void wait_for_all(Device& device) {
  launches_pending() = true;
  device.synchronise();
}

RankTiming time_all(const TimingPlan& plan, Communicator& world) {
  const StageScope scope(Stage::run);
  share_cores(world.size());
  std::optional<RankRecorder> recorder;  // outlives all buffers
  if (plan.recording) {
    recorder.emplace(*plan.recording, plan.setups.front().grid, world.rank());
    recorder->begin_phase("setup");
  }
  SharedTensors shared(plan, world);
  shared.begin(RankPhase::setup);
  shared.begin(RankPhase::plan);
  const LossProblem& problem = shared.loss_problem();
  std::vector<std::unique_ptr<TimedImplementation>> implementations;
  std::vector<SampledItem*> items;
  for (const TrialSetup& setup : plan.setups) {
    implementations.push_back(std::make_unique<TimedImplementation>(setup, plan.cache, shared));
    items.push_back(implementations.back().get());
  }
  const std::vector<std::unique_ptr<SampledItem>> ceilings =
      make_ceiling_items(problem, plan.product_rows, shared.device(), shared.tensors().inputs(),
                         shared.tensors().gradients());
  for (const std::unique_ptr<SampledItem>& item : ceilings) items.push_back(item.get());

  RankTiming timing;
  timing.gpu = traits_of(problem.backend).gpu_uuid();
  timing.ceilings = ceilings_of(problem, plan.product_rows);
  timing.tp_all_reduce = measure_all_reduce(*shared.groups().tp);
  timing.cp_all_reduce = measure_all_reduce(*shared.groups().cp);
  std::unique_ptr<CacheWalk> walk;
  if (plan.cache == CacheMode::cold) walk = std::make_unique<CacheWalk>(shared.device());
  const std::unique_ptr<DeviceTimer> timer = make_device_timer(shared.device());
  SamplerRequest request = plan.sampler;
  request.timer = timer.get();
  request.warm_up_ns = traits_of(problem.backend).warm_up_ns;
  request.before_sample = [&] {
    if (walk) walk->run();
    wait_for_all(shared.device());
  };
  if (recorder) recorder->end_phase();
  GpuLog gpu_log(timing.gpu);
  request.begins_round = [&](std::int64_t round) {
    gpu_log.begin_round();
    if (recorder) recorder->begin_step(round);
  };
  timing.samples = take_samples(items, world, shared.communication_ns(), request);
  if (recorder) recorder->end_step();
  timing.gpu_states = gpu_log.take();
  for (const auto& implementation : implementations) {
    timing.outputs.push_back(implementation->take_findings());
    timing.work.push_back(implementation->take_work());
  }
  return timing;
}

}  // namespace

RankTiming time_rank(const TimingPlan& plan, Communicator& world) {
  RankTiming timing = time_all(plan, world);
  timing.stages = take_stage_times();
  return timing;
}

std::int64_t timing_memory_bytes(const LossProblem& problem, const TimingPlan& plan) {
  std::int64_t rank = rank_data_bytes(problem) + 4 * problem.rows() * problem.token_columns() +
                      ceiling_memory_bytes(problem, plan.product_rows);
  for (const TrialSetup& setup : plan.setups) {
    rank += workspace_bytes(problem, *setup.implementation);
  }
  if (any_in_place(plan.setups)) rank += problem.logits_bytes();
  // Workers walk through memory of their own.
  const int walks = 1 + static_cast<int>(any_external(plan.setups));
  return rank + walks * walk_bytes(plan.cache, problem.backend);
}

std::int64_t timing_host_bytes(const LossProblem& problem) {
  const std::int64_t tensors = problem.input_bytes() + problem.gradient_bytes();
  // Copies on the host: inputs while they are made, or gradients while they are checked.
  return std::max(problem.input_bytes(), problem.gradient_bytes()) + rank_data_bytes(problem) -
         tensors + 4 * problem.rows() * problem.token_columns();
}

}  // namespace lossgrid
