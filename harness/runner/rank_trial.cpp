// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank_trial.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>

#include "harness/comm/consensus.h"
#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/text.h"
#include "harness/verify/bounds.h"

namespace lossgrid {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::uint64_t fingerprint_of(double value, std::uint64_t seed) {
  return mix_bits(std::bit_cast<std::uint64_t>(value) ^ mix_bits(seed));
}

std::uint64_t fingerprint_result(const ObjectiveResult& result) {
  std::uint64_t bits = fingerprint_of(result.loss, 0);
  std::uint64_t index = 1;
  for (const auto& [name, value] : result.metrics) {
    bits += fingerprint_of(value.value_or(0.0), index++);
  }
  return bits;
}

/// Adding the same constant to all logits must not change a log-probability; the sum is rounded, so
/// the bound has a term for that. Small problems only: it costs another forward pass.
constexpr double kShift = 16;
constexpr std::int64_t kShiftLimitElements = std::int64_t{1} << 20;

class RankTrial {
 public:
  RankTrial(const TrialSetup& setup, Communicator& world)
      : setup_(setup),
        problem_(*setup.problem),
        device_(make_cpu_device()),
        groups_(make_process_grid(world, setup.grid)),
        tp_(count_calls(*groups_.tp, counts_.tp)),
        cp_(count_calls(*groups_.cp, counts_.cp)),
        batch_(pack(problem_, setup.grid.cp)),
        loss_problem_{batch_, problem_.spec.vocab, problem_.spec.dtype, setup.grid,
                      *setup.objective},
        description_(setup.implementation->describe()),
        shard_(vocab_shard(problem_.spec.vocab, setup.grid.tp, groups_.tp_rank())),
        rank_(world.rank()) {
    // Ranks that do not run the same trial would meet in each other's collectives.
    require_same_text(world,
                      fmt::format("{} {} {}", format_case(problem_.spec), format_grid(setup.grid),
                                  setup.implementation_text),
                      "trial");
    if (setup.fault) {
      injector_.emplace(*setup.fault, rank_);
      tp_with_faults_ = inject_faults(*tp_, *injector_);
      cp_with_faults_ = inject_faults(*cp_, *injector_);
    }
    const std::vector<std::int64_t> own =
        cp_rows(batch_.cu_seqlens_padded, setup.grid.cp, groups_.cp_rank());
    own_places_ = place_rows(problem_, batch_.cu_seqlens_padded, own);
    if (description_.logprobs == LogprobScope::pack) {
      std::vector<std::int64_t> all(static_cast<std::size_t>(batch_.padded_tokens()));
      std::iota(all.begin(), all.end(), 0);
      logprob_places_ = place_rows(problem_, batch_.cu_seqlens_padded, all);
      own_logprob_index_ = own;
    } else {
      logprob_places_ = own_places_;
      own_logprob_index_.resize(own.size());
      std::iota(own_logprob_index_.begin(), own_logprob_index_.end(), 0);
    }
  }

  RankResult run() {
    logits_ = device_->allocate(static_cast<std::size_t>(loss_problem_.shard_bytes()), "logits");
    fill_logits_shard(problem_, setup_.grid, groups_.tp_rank(), groups_.cp_rank(), logits_.data());
    const std::uint64_t input_bits = fingerprint({logits_.data(), logits_.bytes()});
    result_.input_bytes = device_->tracker().live_bytes();
    result_.predicted = setup_.implementation->cost(loss_problem_);

    in_phase("plan", [&] {
      RankContext context{*device_, tp_with_faults_ ? *tp_with_faults_ : *tp_,
                          cp_with_faults_ ? *cp_with_faults_ : *cp_};
      plan_ = setup_.implementation->plan(loss_problem_, context);
    });
    logprobs_ = DeviceArray<float>(*device_, logprob_places_.size(), "logprobs");
    in_phase("forward", [&] { forward(); });
    grad_ = device_->allocate(static_cast<std::size_t>(loss_problem_.shard_bytes()), "grad_logits");
    in_phase("backward", [&] { backward(); });
    result_.memory = device_->tracker().phases();

    result_.result = outputs_.result;
    result_.owned_labels = outputs_.owned_labels;
    check_outputs();
    check_guards();
    add_invariant("inputs_unmodified", fingerprint({logits_.data(), logits_.bytes()}) == input_bits,
                  "the implementation wrote to its logits");
    if (setup_.keep_outputs) keep_outputs();
    run_again();
    check_shift_invariance();
    return std::move(result_);
  }

 private:
  template <typename F>
  void in_phase(const std::string& phase, F&& body) {
    result_.output_bytes[phase] =
        device_->tracker().live_bytes() - result_.input_bytes - plan_bytes_;
    const std::int64_t live = device_->tracker().live_bytes();
    device_->tracker().begin_phase(phase);
    counts_ = {};
    const std::int64_t start = now_ns();
    body();
    result_.time_ns[phase] = now_ns() - start;
    device_->tracker().end_phase();
    result_.counts[phase] = counts_;
    plan_bytes_ += device_->tracker().live_bytes() - live;  // what the plan keeps
  }

  void forward() {
    outputs_ = LossOutputs{{logprobs_.data(), logprobs_.size()}, {}, 0};
    plan_->forward({logits_.data()}, outputs_);
  }

  void backward() {
    LossGradients gradients{grad_.data()};
    plan_->backward({logits_.data()}, gradients);
  }

  /// Fresh buffers are poisoned; used ones have to be, outside of the timed phases.
  void poison_outputs() {
    logprobs_.buffer().poison();
    grad_.poison();
  }

  int serial_adds() const { return description_.serial_adds + setup_.grid.tp - 1; }

  void check_outputs() {
    const Truth& truth = *setup_.truth;
    result_.checks = check_result(truth, outputs_.result, serial_adds(), rank_);
    result_.checks.push_back(check_logprobs(problem_, truth, logprob_places_,
                                            {logprobs_.data(), logprobs_.size()}, serial_adds(),
                                            rank_));
    result_.gradient =
        check_gradient(problem_, truth, own_places_, shard_, grad_.data(), serial_adds(), rank_);
    check_nonpositive();
    const GradientFindings& found = result_.gradient;
    const ElementPlace& at = found.first_misplaced;
    const auto where = [&](std::int64_t count) {
      return fmt::format("{} elements, first: rank {}, sequence {}, token {}, vocab id {}", count,
                         at.rank, at.sequence, at.token, at.vocab_id);
    };
    add_invariant("every_element_written", found.not_written == 0, where(found.not_written));
    add_invariant("masked_rows_zero", found.nonzero_masked == 0, where(found.nonzero_masked));
    add_invariant("padded_vocab_zero", found.nonzero_padding == 0, where(found.nonzero_padding));
    fingerprint_outputs(result_);
  }

  void check_nonpositive() {
    for (std::size_t k = 0; k < logprob_places_.size(); ++k) {
      const RowPlace& place = logprob_places_[k];
      if (place.row < 0) continue;
      const RowTruth& row = setup_.truth->rows[place.row];
      if (!has_logprob(problem_, row)) continue;
      if (logprobs_[k] <= logprob_bound(row, serial_adds())) continue;
      add_invariant("logprobs_nonpositive", false,
                    fmt::format("rank {}, sequence {}, token {}: {}", rank_, place.sequence,
                                place.offset, logprobs_[k]));
      return;
    }
    add_invariant("logprobs_nonpositive", true, "");
  }

  void check_guards() {
    const std::vector<std::string> broken = device_->take_broken_guards();
    add_invariant("guard_bands_intact", broken.empty(),
                  fmt::format("written outside of: {}", join(broken, ", ")));
  }

  void fingerprint_outputs(RankResult& result) const {
    result.result_bits = fingerprint_result(outputs_.result);
    result.logprob_bits = 0;
    for (std::size_t k = 0; k < logprob_places_.size(); ++k) {
      result.logprob_bits += logprob_fingerprint(k);
    }
    result.own_logprob_bits = 0;
    for (const std::int64_t k : own_logprob_index_) {
      result.own_logprob_bits += logprob_fingerprint(static_cast<std::size_t>(k));
    }
    const std::size_t element = size_of(problem_.spec.dtype);
    const std::size_t stride = static_cast<std::size_t>(shard_.width) * element;
    result.gradient_bits = 0;
    for (std::size_t k = 0; k < own_places_.size(); ++k) {
      if (own_places_[k].row < 0) continue;
      const auto place = static_cast<std::uint64_t>(own_places_[k].row) * 4096 +
                         static_cast<std::uint64_t>(groups_.tp_rank());
      result.gradient_bits += fingerprint(
          {grad_.data() + k * stride, static_cast<std::size_t>(shard_.valid()) * element}, place);
    }
  }

  /// Of rows that take part in the loss: the others may hold anything.
  std::uint64_t logprob_fingerprint(std::size_t k) const {
    const RowPlace& place = logprob_places_[k];
    if (place.row < 0 || !setup_.truth->rows[place.row].valid) return 0;
    return mix_bits(std::bit_cast<std::uint32_t>(logprobs_[k]) ^
                    mix_bits(static_cast<std::uint64_t>(place.row)));
  }

  void run_again() {
    poison_outputs();
    forward();
    backward();
    RankResult again;
    fingerprint_outputs(again);
    result_.same_bits_again = again.result_bits == result_.result_bits &&
                              again.logprob_bits == result_.logprob_bits &&
                              again.gradient_bits == result_.gradient_bits;
  }

  void check_shift_invariance() {
    Invariant invariant{"shift_invariance", Invariant::Status::passed, ""};
    if (problem_.spec.dtype == DType::bf16) {
      invariant.status = Invariant::Status::not_run;
      invariant.detail = "bf16 rounds the shift away";
    } else if (problem_.tokens() * problem_.spec.vocab > kShiftLimitElements) {
      invariant.status = Invariant::Status::not_run;
      invariant.detail = "more than 2^20 logits";
    } else {
      shift_logits();
      poison_outputs();
      forward();
      check_shifted(invariant);
    }
    result_.invariants.push_back(invariant);
  }

  void shift_logits() {
    dispatch_floating(problem_.spec.dtype, [&](auto zero) {
      for (auto& x : logits_.as<decltype(zero)>()) {
        x = static_cast<decltype(zero)>(static_cast<double>(x) + kShift);
      }
    });
  }

  void check_shifted(Invariant& invariant) const {
    const double u = unit_roundoff(problem_.spec.dtype);
    for (std::size_t k = 0; k < logprob_places_.size(); ++k) {
      const RowPlace& place = logprob_places_[k];
      if (place.row < 0) continue;
      const RowTruth& row = setup_.truth->rows[place.row];
      if (!has_logprob(problem_, row)) continue;
      RowTruth shifted = row;
      shifted.max += kShift;
      shifted.target_logit += kShift;
      const double rounded_inputs =
          u * (std::abs(shifted.max) + row.spread + std::abs(shifted.target_logit));
      const double bound = logprob_bound(shifted, serial_adds()) + rounded_inputs;
      if (std::abs(logprobs_[k] - row.logprob) <= bound) continue;
      invariant.status = Invariant::Status::failed;
      invariant.detail = fmt::format(
          "rank {}, sequence {}, token {}: {} after adding {} to all "
          "logits, want {}",
          rank_, place.sequence, place.offset, logprobs_[k], kShift, row.logprob);
      return;
    }
  }

  void keep_outputs() {
    for (const std::int64_t k : own_logprob_index_) {
      result_.logprobs.push_back(logprobs_[static_cast<std::size_t>(k)]);
    }
    dispatch_floating(problem_.spec.dtype, [&](auto zero) {
      for (const auto& x : grad_.as<decltype(zero)>()) {
        result_.grad_logits.push_back(static_cast<double>(x));
      }
    });
  }

  void add_invariant(const std::string& name, bool holds, const std::string& detail) {
    result_.invariants.push_back({name,
                                  holds ? Invariant::Status::passed : Invariant::Status::failed,
                                  holds ? std::string() : detail});
  }

  const TrialSetup& setup_;
  const Problem& problem_;
  std::unique_ptr<Device> device_;
  RankCounts counts_;
  ProcessGrid groups_;
  std::unique_ptr<Communicator> tp_;
  std::unique_ptr<Communicator> cp_;
  std::optional<FaultInjector> injector_;
  std::unique_ptr<Communicator> tp_with_faults_;
  std::unique_ptr<Communicator> cp_with_faults_;
  PackedBatch batch_;
  LossProblem loss_problem_;
  Description description_;
  VocabShard shard_;
  std::int64_t rank_;
  std::vector<RowPlace> own_places_;
  std::vector<RowPlace> logprob_places_;
  std::vector<std::int64_t> own_logprob_index_;  // where the own rows stand among the outputs

  Buffer logits_;
  DeviceArray<float> logprobs_;
  Buffer grad_;
  LossOutputs outputs_;
  std::unique_ptr<LossPlan> plan_;
  std::int64_t plan_bytes_ = 0;
  RankResult result_;
};

}  // namespace

RankResult run_rank(const TrialSetup& setup, Communicator& world) {
  return RankTrial(setup, world).run();
}

}  // namespace lossgrid
