// SPDX-License-Identifier: Apache-2.0
// On-policy distillation by the sampled tokens alone: the mean over the valid tokens of the global
// batch of an estimate of the divergence of the student from a teacher, made from both
// log-probabilities of the token (verl's distillation losses `abs`, `k2` and `k3`), or of the
// student's log-probability times the difference of both log-probabilities (the score function, K.
// Lu, "On-Policy Distillation", 2025). The estimate k1, d itself, is not supported, because its
// gradient does not depend on the teacher.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "harness/core/error.h"
#include "harness/loss/registry.h"
#include "harness/loss/tape.h"
#include "harness/loss/terms_objective.h"
#include "impls/objectives/distill/on_policy_distill_terms.h"
#include "impls/objectives/k3_root.h"
#include "impls/objectives/objective_options.h"
#include "impls/objectives/policy_draw.h"

namespace lossgrid {
namespace {

/// Returns the differences teacher - student at which the loss meets its bound.
PolicyEdges bound_edges(const OnPolicyDistillOptions& options) {
  PolicyEdges edges;
  const double bound = options.loss_max_clamp;
  if (!std::isfinite(bound)) return edges;
  for (const double sign : {1.0, -1.0}) {
    edges.teacher_offsets.add(options.loss_mode == SampledLoss::k2   ? sign * std::sqrt(2 * bound)
                              : options.loss_mode == SampledLoss::k3 ? k3_root(bound, -sign)
                                                                     : sign * bound);
  }
  return edges;
}

constexpr auto kTeacher = static_cast<std::size_t>(TokenInput::teacher_logprobs);

ObjectiveNeeds on_policy_needs() {
  ObjectiveNeeds needs;
  needs.inputs[kTeacher] = true;
  return needs;
}

class OnPolicyDistillObjective final : public TermsObjective<OnPolicyDistillTerms> {
 public:
  explicit OnPolicyDistillObjective(const OnPolicyDistillOptions& options)
      : TermsObjective(on_policy_needs()), options_(options) {}

  std::string_view kind() const override { return "on_policy_distill"; }

  ObjectiveSizes sizes() const override {
    ObjectiveSizes sizes;
    sizes.sums = OnPolicyDistillTerms::kSums;
    return sizes;
  }

  std::shared_ptr<const InputDraw> input_draw() const override {
    return std::make_shared<PolicyDraw>(bound_edges(options_));
  }

  ObjectiveResult finish(const PackedBatch& batch, SequenceTable<const double> /*sums*/,
                         SequenceTable<const double> /*coefficients*/,
                         ObjectiveTotals<const double> totals) const override {
    const double loss = totals.sums[0];
    return {loss,
            {{"loss", {Reduction::sum, loss, 1}},
             {"num_unmasked_tokens", {Reduction::count, totals.sums[1], 1}},
             {"num_valid_samples", {Reduction::count, valid_samples(batch), 1}}}};
  }

  ObjectiveTruth truth(const PackedBatch& batch, std::span<const TokenTruth> rows) const override {
    ObjectiveTruth truth;
    truth.grad_logprob.assign(rows.size(), 0.0);
    std::vector<Enclosure> losses;
    for (std::int64_t i = 0; i < batch.sequences(); ++i) {
      if (batch.sample_mask[i] == 0) continue;
      for (std::int64_t t = 1; t < batch.length(i); ++t) {  // the first token is never a target
        const std::int64_t token = batch.cu_seqlens[i] + t;
        if (batch.token_mask[token] == 0) continue;
        const std::int64_t row = batch.cu_seqlens_padded[i] + t - 1;
        losses.push_back(add_token(rows[row].logprob,
                                   static_cast<double>(batch.inputs[kTeacher][token]),
                                   batch.denominators.valid_tokens, row, truth));
      }
    }
    truth.loss = sum(losses);
    truth.metrics["loss"] = {Reduction::sum, truth.loss, 1};
    truth.metrics["num_unmasked_tokens"] = {Reduction::count, static_cast<double>(losses.size()),
                                            1};
    truth.metrics["num_valid_samples"] = {Reduction::count, valid_samples(batch), 1};
    return truth;
  }

 private:
  /// Returns the forward formula of one token.
  Var loss_of(const Var& logprob, double teacher) const {
    const double most = options_.loss_max_clamp;
    const Var d = logprob - teacher;
    switch (options_.loss_mode) {
      case SampledLoss::score:
        return detach(clamp(d, -most, most)) * logprob;
      case SampledLoss::abs:
        return clamp(abs(d), -most, most);
      case SampledLoss::k2:
        return clamp(0.5 * d * d, -most, most);
      default:
        return clamp(exp(-d) - 1.0 + d, -most, most);
    }
  }

  /// Adds the gradient of the token of a row, and the gradient of each side if its interval
  /// straddles a switch. Returns the loss of the token.
  Enclosure add_token(const Enclosure& logprob, double teacher, std::int64_t tokens,
                      std::int64_t row, ObjectiveTruth& truth) const {
    Enclosure loss;
    const auto on_side = [&](Side side, bool& straddles) {
      Tape tape;
      tape.take_side(side);
      const Var input = tape.variable(logprob);
      const Var of_token =
          tokens > 0 ? loss_of(input, teacher) / static_cast<double>(tokens) : Var(0.0);
      if (side == Side::either) loss = of_token.enclosure();
      straddles = tape.straddles();
      return tape.gradient(of_token, std::array{input})[0];
    };
    bool straddles = false;
    truth.grad_logprob[static_cast<std::size_t>(row)] = on_side(Side::either, straddles);
    count_branch(logprob.value - teacher, truth.branches);
    if (!straddles || options_.loss_mode == SampledLoss::score) return loss;
    for (const Side side : {Side::first, Side::second, Side::tie}) {
      truth.grad_sides[row].push_back(on_side(side, straddles));
    }
    return loss;
  }

  void count_branch(double d, std::map<std::string, std::int64_t>& branches) const {
    const double estimate = options_.loss_mode == SampledLoss::k2   ? d * d / 2
                            : options_.loss_mode == SampledLoss::k3 ? std::expm1(-d) + d
                                                                    : std::abs(d);
    const bool is_bounded = estimate > options_.loss_max_clamp;
    ++branches["tokens"];
    branches["teacher_above"] += d < 0 && !is_bounded ? 1 : 0;
    branches["teacher_below"] += d > 0 && !is_bounded ? 1 : 0;
    branches["distillation_bounded"] += is_bounded ? 1 : 0;
  }

  static double token_weight(const PackedBatch& batch) {
    const std::int64_t tokens = batch.denominators.valid_tokens;
    return tokens > 0 ? 1 / static_cast<double>(tokens) : 0.0;
  }

  OnPolicyDistillTerms terms(const PackedBatch& batch) const override {
    return {options_, token_weight(batch)};
  }

  static double valid_samples(const PackedBatch& batch) {
    double samples = 0;
    for (const std::uint8_t mask : batch.sample_mask) samples += mask;
    return samples;
  }

  const OnPolicyDistillOptions options_;
};

OnPolicyDistillOptions read_on_policy_distill(const OptionReader& reader) {
  OnPolicyDistillOptions options;
  constexpr SampledLoss kModes[] = {SampledLoss::abs, SampledLoss::k2, SampledLoss::k3,
                                    SampledLoss::score};
  options.loss_mode = kModes[reader.index(
      "loss_mode", 2, {"abs", "k2", "k3", "score"},
      {"`abs` |d|, `k2` d²/2, `k3` e^-d - 1 + d; `score` d, held constant, times the student's "
       "log-probability. `k1`, d itself, has a gradient without the teacher in it, and is refused",
       "verl `loss_mode`, TRL SDFT"})];
  options.loss_max_clamp =
      reader
          .optional_number("loss_max_clamp", 10,
                           {"bound of the loss of a token, which has no gradient beyond it; for "
                            "`score` bound of d; null: no bound",
                            "verl",
                            kAbove0,
                            {"0.1", "1.5"}})
          .value_or(std::numeric_limits<double>::infinity());
  return options;
}

const Registered registered_on_policy_distill{objective_entry(
    "on_policy_distill", "divergence from a teacher by the sampled tokens: abs, k2, k3 or score",
    read_on_policy_distill, [](const OnPolicyDistillOptions& options) {
      return std::make_unique<OnPolicyDistillObjective>(options);
    })};

}  // namespace
}  // namespace lossgrid
