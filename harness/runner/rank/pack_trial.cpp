// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/pack_trial.h"

#include <cmath>
#include <set>

#include "harness/comm/faults/flight_recorder.h"
#include "harness/core/clock.h"
#include "harness/core/error.h"
#include "harness/core/rank_observer.h"
#include "harness/core/stage_clock.h"
#include "harness/core/text.h"
#include "harness/runner/rank/heap_check.h"
#include "harness/runner/rank/microbatch_in_flight.h"
#include "harness/runner/rank/pack_run.h"
#include "harness/verify/checks/output_checks.h"
#include "harness/verify/truth/bounds.h"

namespace lossgrid {
namespace {

const RegisteredInvariant kShiftInvariance{
    {.name = "shift_invariance",
     .condition = "a constant that is added to all logits changes nothing; not run for heads "
                  "without a vocabulary",
     .place = 10}};
const RegisteredInvariant kOneMicrobatchInMemory{
    {.name = "one_microbatch_in_memory",
     .condition = "buffers of a microbatch are gone before the next one",
     .place = 16}};
const RegisteredInvariant kMicrobatchesInFlight{
    {.name = "microbatches_in_flight",
     .condition =
         "the gradient stays if another microbatch has its forward in front of this one's backward",
     .place = 17}};
const RegisteredInvariant kEvaluationAsTraining{
    {.name = "evaluation_as_training",
     .condition =
         "loaded code: a forward pass without gradients returns what one with gradients does",
     .place = 18}};
const RegisteredInvariant kPlanFreesItsMemory{
    {.name = "plan_frees_its_memory",
     .condition = "plugin: the end of a plan frees all that it has allocated",
     .place = 19}};

/// Constant that is added to all logits: no log-probability may change. The sum is rounded, so the
/// bound has a term for that.
constexpr double kShift = 16;

class PackTrial {
 public:
  PackTrial(const TrialSetup& setup, const TrialPart& part, const GlobalCounts& counts,
            const PackRank& rank, Device& device)
      : setup_(setup),
        problem_(*part.problem),
        truth_(*part.truth),
        rank_(rank),
        device_(device),
        batch_(pack(problem_, rank.grid)),
        loss_problem_(
            make_loss_problem(problem_, batch_, rank.grid, *setup.objective, setup.backend)),
        run_(setup, problem_, truth_, loss_problem_, rank_, device),
        description_(run_.description()),
        places_(run_.places()),
        heap_(loss_problem_, description_, rank.rank) {
    counts.give_to(problem_, batch_);
  }

  PackFindings run() {
    begin(RankPhase::setup);
    const std::int64_t left_bytes = device_.tracker().live_bytes();
    make_tensors();
    const std::uint64_t input_bits = take_input_bits();
    result_.input_bytes = device_.tracker().live_bytes();
    result_.predicted = setup_.implementation->cost(loss_problem_);

    in_phase(RankPhase::plan, [&] { run_.plan(run_.context()); });
    tokens_ = DeviceArray<float>(device_, run_.token_values(), "token_outputs");
    if (description_.one_sweep) allocate_gradients();
    in_phase(RankPhase::forward, [&] { forward(); });
    if (!description_.one_sweep) allocate_gradients();
    in_phase(RankPhase::backward, [&] { backward(); });

    begin(RankPhase::check);
    const StageScope scope(Stage::compare);
    run_.check(*tensors_, result_);
    const bool as_before = description_.in_place || take_input_bits() == input_bits;
    PackChecks::check_memory(
        as_before && changed_inputs_.empty(), device_, result_,
        join(std::vector<std::string>(changed_inputs_.begin(), changed_inputs_.end()), ", "));
    result_.add_invariant(
        kOneMicrobatchInMemory, left_bytes == 0,
        fmt::format("rank {} still holds {} bytes of a microbatch before", rank_.rank, left_bytes));
    heap_.add_to(result_);
    if (description_.is_external) {
      result_.add_invariant(kEvaluationAsTraining, evaluation_.empty(),
                            fmt::format("rank {}: {}", rank_.rank, evaluation_));
    }
    add_foreign_writes();
    if (const ForeignPlan* foreign = run_.foreign()) result_.step = foreign->step();
    if (setup_.keep_outputs) keep_outputs();
    run_again();
    check_shift_invariance();
    // Ends while the buffers are alive: this is the last state of a memory snapshot.
    if (RankObserver* observer = rank_observer()) observer->end_step();
    end_foreign_plan();
    return std::move(result_);
  }

 private:
  void begin(RankPhase phase) {
    enter_phase(phase);
    run_.begin(phase);
  }

  void make_tensors() {
    const StageScope scope(Stage::generate);
    tensors_ = make_rank_tensors(run_.rank_pack());
    tensors_->set_in_place(description_.in_place);
  }

  std::uint64_t take_input_bits() const {
    const StageScope scope(Stage::bits);
    return tensors_->input_bits();
  }

  void allocate_gradients() {
    const StageScope scope(Stage::generate);
    tensors_->allocate_gradients();
  }

  template <typename F>
  void in_phase(RankPhase rank_phase, F&& body) {
    const std::string phase(name(rank_phase));
    result_.output_bytes[phase] =
        device_.tracker().live_bytes() - result_.input_bytes - plan_bytes_;
    const std::int64_t live = device_.tracker().live_bytes();
    device_.tracker().begin_phase(phase);
    rank_.counts = {};
    begin(rank_phase);
    device_work() = {};
    const std::int64_t start = steady_clock_ns();
    heap_.watch(phase, body);
    device_.synchronise();
    result_.time_ns[phase] = steady_clock_ns() - start;
    take_measurement(phase);
    result_.device_work[phase] = device_work();
    if (RankObserver* observer = rank_observer()) observer->end_phase();
    device_.tracker().end_phase();
    result_.memory.push_back(device_.tracker().phases().back());
    result_.memory.back().driver = device_.driver_memory();
    run_.spoil(rank_phase);
    result_.counts[phase] = rank_.counts;
    plan_bytes_ += device_.tracker().live_bytes() - live;  // what the plan keeps
  }

  void take_measurement(const std::string& phase) {
    const auto measured = run_.plan().measured();
    const bool was_taken = description_.one_sweep && result_.measured.contains("forward");
    if (!measured || was_taken) return;
    result_.time_ns[phase] = measured->time_ns;
    result_.measured[phase] = *measured;
    for (const std::string& name : measured->changed_inputs) changed_inputs_.insert(name);
    if (evaluation_.empty()) evaluation_ = measured->evaluation;
  }

  /// Runs forward, or in one sweep forward and backward.
  void forward() {
    run_.take(*tensors_, {tokens_.data(), tokens_.size()});
    if (description_.one_sweep) {
      run_.forward_backward();
    } else {
      run_.forward();
    }
  }

  void backward() {
    if (description_.one_sweep) return;
    run_.take_gradients(*tensors_);  // they may not have been there in the forward pass
    run_.backward();
  }

  /// Runs the pack a second time, with another microbatch in flight where that can be, and compares
  /// the bits. Poisons the used buffers, outside of the timed phases.
  void run_again() {
    const std::optional<SkipReason> alone = not_in_flight(setup_);
    std::optional<MicrobatchInFlight> other;
    std::vector<double> first_gradient;
    if (!alone) {
      first_gradient = tensors_->row_gradient();
      other.emplace(setup_, run_.rank_pack(), run_.context(), std::ssize(places_.rows));
    }
    {
      const StageScope scope(Stage::run);
      tokens_.buffer().poison();
      tensors_->renew_gradients();
      restore_inputs();
      forward();
      if (other) other->forward();
      backward();
      if (other) other->backward();
      device_.synchronise();
    }
    compare_with_first_run();
    if (alone) {
      result_.add_not_run(kMicrobatchesInFlight, alone->text);
    } else {
      check_in_flight(first_gradient);
    }
  }

  void compare_with_first_run() {
    PackFindings again;
    run_.fingerprint(*tensors_, again);
    result_.same_bits_again =
        fingerprint_result(run_.outputs().result) == fingerprint_result(result_.result) &&
        again.output_bits == result_.output_bits && again.gradient_bits == result_.gradient_bits;
  }

  /// Checks that the gradient of the run with another microbatch in flight is that of the first
  /// run.
  void check_in_flight(const std::vector<double>& first) {
    std::optional<double> apart;
    if (!result_.same_bits_again) {
      const double roundings = rounding_norm(truth_);
      apart = distance_in_flight(first, tensors_->row_gradient(), roundings);
      const auto [weight_again, weight_first] = tensors_->weight_gradients();
      if (!apart) apart = distance_in_flight(weight_first, weight_again, roundings);
    }
    result_.add_invariant(
        kMicrobatchesInFlight, !apart,
        fmt::format("rank {}: the gradient is off by {:.2g} of its norm if a second microbatch has "
                    "its forward before this one's backward (1F1B): state outside of the plan?",
                    rank_.rank, apart.value_or(0)));
  }

  /// Adds what loaded code in another process wrote outside of its tensors.
  void add_foreign_writes() {
    const ForeignPlan* foreign = run_.foreign();
    if (foreign == nullptr || foreign->broken_guards().empty()) return;
    for (Invariant& invariant : result_.invariants) {
      if (invariant.name != kGuardBandsIntact.name) continue;
      invariant.status = Invariant::Status::failed;
      invariant.detail = fmt::format("rank {} wrote outside of: {}", rank_.rank,
                                     join(foreign->broken_guards(), ", "));
    }
  }

  void end_foreign_plan() {
    ForeignPlan* foreign = run_.foreign();
    if (foreign == nullptr) return;
    const std::optional<std::string> left = foreign->end();
    if (!left) return;
    result_.add_invariant(kPlanFreesItsMemory, left->empty(),
                          fmt::format("rank {}: its end left {}", rank_.rank, *left));
  }

  void restore_inputs() {
    const StageScope scope(Stage::generate);
    if (description_.in_place) tensors_->restore_inputs();
  }

  /// Shifts the logits, or returns a reason for which the invariant is not checked.
  std::optional<SkipReason> shift_logits() {
    if (description_.plays_back) return SkipReason{"plays back what another program computed"};
    if (!description_.outputs.logprobs) {
      return SkipReason{"the implementation returns no log-probabilities"};
    }
    if (problem_.spec.head != Head::lm) {
      return SkipReason{"the number of a head without a vocabulary is not one of distances"};
    }
    if (problem_.untransformed != nullptr) return SkipReason{"the logits are transformed"};
    return tensors_->shift(kShift);
  }

  void check_shift_invariance() {
    restore_inputs();
    Invariant invariant{.name = kShiftInvariance.name};
    if (const std::optional<SkipReason> reason = shift_logits()) {
      invariant.status = Invariant::Status::not_run;
      invariant.detail = reason->text;
    } else {
      tokens_.buffer().poison();
      {
        const StageScope scope(Stage::run);
        forward();
        device_.synchronise();
      }
      check_shifted(invariant);
    }
    result_.invariants.push_back(invariant);
  }

  void check_shifted(Invariant& invariant) const {
    const double u = unit_roundoff(problem_.spec.dtype);
    for (std::size_t k = 0; k < places_.rows.size(); ++k) {
      const RowPlace& place = places_.rows[k];
      if (place.row < 0) continue;
      const RowTruth& row = truth_.rows[place.row];
      if (!has_logprob(problem_, row)) continue;
      RowTruth shifted = row;
      shifted.max += kShift;
      shifted.target_logit += kShift;
      const double rounded_inputs =
          u * (std::abs(shifted.max) + row.spread + std::abs(shifted.target_logit));
      const double bound = logprob_bound(shifted, run_.truth().serial_adds) + rounded_inputs;
      Check logprob;
      logprob.add_float32(run_.outputs().tokens.logprobs[k], row.logprob, bound, {});
      if (logprob.passed()) continue;
      invariant.status = Invariant::Status::failed;
      invariant.detail = fmt::format(
          "rank {}, sequence {}, token {}: {} after adding {} to all "
          "logits, want {}",
          rank_.rank, place.sequence, place.offset, run_.outputs().tokens.logprobs[k], kShift,
          row.logprob);
      return;
    }
  }

  void keep_outputs() {
    const TokenOutputs given = description_.outputs.only_given(run_.outputs().tokens);
    const auto keep = [&](std::span<const float> column, std::vector<double>& kept) {
      if (column.empty()) return;
      for (const std::int64_t k : places_.own) kept.push_back(column[static_cast<std::size_t>(k)]);
    };
    keep(given.logprobs, result_.logprobs);
    keep(given.terms[RowTerm::entropy], result_.entropy);
    if (description_.outputs.gradients) result_.row_gradient = tensors_->row_gradient();
  }

  const TrialSetup& setup_;
  const Problem& problem_;
  const Truth& truth_;
  PackRank rank_;
  Device& device_;
  PackedBatch batch_;
  LossProblem loss_problem_;
  PackRun run_;
  const ImplementationTraits& description_;
  const TokenPlaces& places_;
  HeapCheck heap_;

  std::unique_ptr<RankTensors> tensors_;
  DeviceArray<float> tokens_;
  std::int64_t plan_bytes_ = 0;
  std::set<std::string> changed_inputs_;  // by an external implementation
  std::string evaluation_;                // PhaseMeasurement::evaluation
  PackFindings result_;
};

}  // namespace

PackFindings run_pack(const TrialSetup& setup, const TrialPart& part, const GlobalCounts& counts,
                      const PackRank& rank, Device& device) {
  return PackTrial(setup, part, counts, rank, device).run();
}

}  // namespace lossgrid
