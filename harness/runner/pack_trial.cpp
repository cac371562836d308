// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/pack_trial.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/text.h"
#include "harness/runner/rank_tensors.h"
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

/// Adding the same constant to all logits must not change a log-probability; the sum is rounded, so
/// the bound has a term for that.
constexpr double kShift = 16;

class PackTrial {
 public:
  PackTrial(const TrialSetup& setup, const TrialPart& part, const Denominators& denominators,
            const PackRank& rank)
      : setup_(setup),
        problem_(*part.problem),
        truth_(*part.truth),
        rank_(rank),
        device_(make_cpu_device()),
        batch_(pack(problem_, setup.grid)),
        loss_problem_(make_loss_problem(problem_, batch_, setup.grid, *setup.objective)),
        description_(setup.implementation->describe()),
        serial_adds_(serial_adds(setup)) {
    batch_.denominators = denominators;
    const std::vector<std::int64_t> own =
        cp_rows(batch_.cu_seqlens_padded, setup.grid.cp, rank.cp_rank);
    own_places_ = place_rows(problem_, batch_.cu_seqlens_padded, own);
    if (description_.logprobs == LogprobScope::pack) {
      std::vector<std::int64_t> all(static_cast<std::size_t>(batch_.padded_tokens()));
      std::iota(all.begin(), all.end(), 0);
      token_places_ = place_rows(problem_, batch_.cu_seqlens_padded, all);
      own_token_index_ = own;
    } else {
      token_places_ = own_places_;
      own_token_index_.resize(own.size());
      std::iota(own_token_index_.begin(), own_token_index_.end(), 0);
    }
  }

  PackFindings run() {
    make_tensors();
    const std::uint64_t input_bits = tensors_->input_bits();
    result_.input_bytes = device_->tracker().live_bytes();
    result_.predicted = setup_.implementation->cost(loss_problem_);

    in_phase("plan", [&] {
      RankContext context{*device_, rank_.tp, rank_.cp};
      plan_ = setup_.implementation->plan(loss_problem_, context);
    });
    tokens_ = DeviceArray<float>(
        *device_, token_places_.size() * static_cast<std::size_t>(loss_problem_.token_columns()),
        "token_outputs");
    in_phase("forward", [&] { forward(); });
    tensors_->allocate_gradients();
    in_phase("backward", [&] { backward(); });
    result_.memory = device_->tracker().phases();

    result_.result = outputs_.result;
    result_.owned_labels = outputs_.owned_labels;
    check_outputs();
    check_guards();
    result_.add_invariant("inputs_unmodified", tensors_->input_bits() == input_bits,
                          "the implementation wrote to its inputs");
    if (setup_.keep_outputs) keep_outputs();
    run_again();
    check_shift_invariance();
    return std::move(result_);
  }

 private:
  void make_tensors() {
    const RankPack pack{problem_,      truth_,
                        loss_problem_, rank_,
                        *device_,      own_places_,
                        serial_adds_,  setup_.implementation->grad_logits_dtype(loss_problem_)};
    tensors_ = loss_problem_.from_hidden() ? make_linear_tensors(pack) : make_logits_tensors(pack);
  }

  template <typename F>
  void in_phase(const std::string& phase, F&& body) {
    result_.output_bytes[phase] =
        device_->tracker().live_bytes() - result_.input_bytes - plan_bytes_;
    const std::int64_t live = device_->tracker().live_bytes();
    device_->tracker().begin_phase(phase);
    rank_.counts = {};
    const std::int64_t start = now_ns();
    body();
    result_.time_ns[phase] = now_ns() - start;
    device_->tracker().end_phase();
    result_.counts[phase] = rank_.counts;
    plan_bytes_ += device_->tracker().live_bytes() - live;  // what the plan keeps
  }

  void forward() {
    outputs_ = LossOutputs{token_outputs(), {}, 0};
    plan_->forward(tensors_->inputs(), outputs_);
  }

  TokenOutputs token_outputs() {
    return columns_in({tokens_.data(), tokens_.size()}, loss_problem_,
                      static_cast<std::int64_t>(token_places_.size()));
  }

  void backward() {
    LossGradients gradients = tensors_->gradients();
    plan_->backward(tensors_->inputs(), gradients);
  }

  void check_outputs() {
    result_.checks =
        check_tokens(problem_, truth_, token_places_, outputs_.tokens, serial_adds_, rank_.rank);
    check_ranges();
    tensors_->check(result_);
    fingerprint_outputs(result_);
  }

  /// log p <= 0 and 0 <= H <= ln V, whatever the truth says.
  void check_ranges() {
    const double most = std::log(static_cast<double>(problem_.spec.vocab));
    check_rows(
        "logprobs_nonpositive", outputs_.tokens.logprobs,
        [&](const RowTruth& row, double x) { return x <= logprob_bound(row, serial_adds_); });
    if (!loss_problem_.row_statistics()) return;
    check_rows("entropy_in_range", outputs_.tokens.entropy, [&](const RowTruth& row, double x) {
      const double bound = entropy_bound(row, serial_adds_);
      return x >= -bound && x <= most + bound;
    });
  }

  /// `holds` for the value of every row that has a truth.
  template <typename F>
  void check_rows(const std::string& name, std::span<const float> values, F&& holds) {
    for (std::size_t k = 0; k < token_places_.size(); ++k) {
      const RowPlace& place = token_places_[k];
      if (place.row < 0 || !has_logprob(problem_, truth_.rows[place.row])) continue;
      if (holds(truth_.rows[place.row], values[k])) continue;
      result_.add_invariant(name, false,
                            fmt::format("rank {}, sequence {}, token {}: {}", rank_.rank,
                                        place.sequence, place.offset, values[k]));
      return;
    }
    result_.add_invariant(name, true, "");
  }

  void check_guards() {
    const std::vector<std::string> broken = device_->take_broken_guards();
    result_.add_invariant("guard_bands_intact", broken.empty(),
                          fmt::format("written outside of: {}", join(broken, ", ")));
  }

  void fingerprint_outputs(PackFindings& findings) const {
    findings.output_bits = 0;
    for (const std::span<float> column : outputs_.tokens.columns()) {
      findings.output_bits = mix_bits(findings.output_bits);
      for (std::size_t k = 0; k < column.size(); ++k) {
        findings.output_bits += value_fingerprint(column, k);
      }
    }
    findings.own_logprob_bits = 0;
    for (const std::int64_t k : own_token_index_) {
      findings.own_logprob_bits +=
          value_fingerprint(outputs_.tokens.logprobs, static_cast<std::size_t>(k));
    }
    findings.gradient_bits = tensors_->gradient_bits();
  }

  /// Of rows that take part in the loss: the others may hold anything.
  std::uint64_t value_fingerprint(std::span<const float> values, std::size_t k) const {
    const std::int64_t row = token_places_[k].row;
    if (row < 0 || !truth_.rows[row].valid) return 0;
    return mix_bits(std::bit_cast<std::uint32_t>(values[k]) ^
                    mix_bits(static_cast<std::uint64_t>(problem_.whole_row(row))));
  }

  /// Fresh buffers are poisoned; used ones have to be, outside of the timed phases.
  void run_again() {
    tokens_.buffer().poison();
    tensors_->renew_gradients();
    forward();
    backward();
    PackFindings again;
    fingerprint_outputs(again);
    result_.same_bits_again =
        fingerprint_result(outputs_.result) == fingerprint_result(result_.result) &&
        again.output_bits == result_.output_bits && again.gradient_bits == result_.gradient_bits;
  }

  void check_shift_invariance() {
    Invariant invariant{"shift_invariance", Invariant::Status::passed, tensors_->shift(kShift)};
    if (!invariant.detail.empty()) {
      invariant.status = Invariant::Status::not_run;
    } else {
      tokens_.buffer().poison();
      forward();
      check_shifted(invariant);
    }
    result_.invariants.push_back(invariant);
  }

  void check_shifted(Invariant& invariant) const {
    const double u = unit_roundoff(problem_.spec.dtype);
    for (std::size_t k = 0; k < token_places_.size(); ++k) {
      const RowPlace& place = token_places_[k];
      if (place.row < 0) continue;
      const RowTruth& row = truth_.rows[place.row];
      if (!has_logprob(problem_, row)) continue;
      RowTruth shifted = row;
      shifted.max += kShift;
      shifted.target_logit += kShift;
      const double rounded_inputs =
          u * (std::abs(shifted.max) + row.spread + std::abs(shifted.target_logit));
      const double bound = logprob_bound(shifted, serial_adds_) + rounded_inputs;
      if (std::abs(outputs_.tokens.logprobs[k] - row.logprob) <= bound) continue;
      invariant.status = Invariant::Status::failed;
      invariant.detail = fmt::format(
          "rank {}, sequence {}, token {}: {} after adding {} to all "
          "logits, want {}",
          rank_.rank, place.sequence, place.offset, outputs_.tokens.logprobs[k], kShift,
          row.logprob);
      return;
    }
  }

  void keep_outputs() {
    for (const std::int64_t k : own_token_index_) {
      result_.logprobs.push_back(outputs_.tokens.logprobs[static_cast<std::size_t>(k)]);
    }
    result_.row_gradient = tensors_->row_gradient();
  }

  const TrialSetup& setup_;
  const Problem& problem_;
  const Truth& truth_;
  PackRank rank_;
  std::unique_ptr<Device> device_;
  PackedBatch batch_;
  LossProblem loss_problem_;
  Description description_;
  int serial_adds_;
  std::vector<RowPlace> own_places_;
  std::vector<RowPlace> token_places_;
  std::vector<std::int64_t> own_token_index_;  // where the own rows stand among the outputs

  std::unique_ptr<RankTensors> tensors_;
  DeviceArray<float> tokens_;
  LossOutputs outputs_;
  std::unique_ptr<LossPlan> plan_;
  std::int64_t plan_bytes_ = 0;
  PackFindings result_;
};

}  // namespace

void PackFindings::add_invariant(const std::string& name, bool holds, const std::string& detail) {
  invariants.push_back({name, holds ? Invariant::Status::passed : Invariant::Status::failed,
                        holds ? std::string() : detail});
}

std::string describe_misplaced(std::int64_t count, const ElementPlace& first) {
  return fmt::format("{} elements, first: rank {}, sequence {}, token {}, vocab id {}", count,
                     first.rank, first.sequence, first.token, first.vocab_id);
}

std::uint64_t fingerprint_result(const ObjectiveResult& result) {
  std::uint64_t bits = fingerprint_of(result.loss, 0);
  std::uint64_t index = 1;
  for (const auto& [name, metric] : result.metrics) {
    bits += fingerprint_of(metric.value().value_or(0.0), index++);
  }
  return bits;
}

PackFindings run_pack(const TrialSetup& setup, const TrialPart& part,
                      const Denominators& denominators, const PackRank& rank) {
  return PackTrial(setup, part, denominators, rank).run();
}

}  // namespace lossgrid
