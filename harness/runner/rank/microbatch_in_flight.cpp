// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/microbatch_in_flight.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/core/stage_clock.h"

namespace lossgrid {

MicrobatchInFlight::MicrobatchInFlight(const TrialSetup& setup, const RankPack& pack,
                                       RankContext context, std::int64_t tokens) {
  {
    const StageScope scope(Stage::generate);
    tensors_ = make_rank_tensors(pack);
    tensors_->halve();
    tensors_->set_in_place(setup.implementation->describe().in_place);
    tensors_->allocate_gradients();
  }
  context.observed = false;
  plan_ = setup.implementation->plan(pack.loss_problem, context);
  tokens_ = DeviceArray<float>(pack.device,
                               static_cast<std::size_t>(tokens * pack.loss_problem.token_columns()),
                               "token_outputs");
  outputs_ =
      LossOutputs{columns_in({tokens_.data(), tokens_.size()}, pack.loss_problem, tokens), {}, 0};
}

void MicrobatchInFlight::forward() {
  plan_->forward(tensors_->inputs(), outputs_);
}

void MicrobatchInFlight::backward() {
  LossGradients gradients = tensors_->gradients();
  plan_->backward(tensors_->inputs(), gradients);
}

std::optional<SkipReason> not_in_flight(const TrialSetup& setup) {
  // Small problems only: it takes as much memory again, and a forward and a backward pass.
  constexpr std::int64_t kLimitElements = std::int64_t{1} << 20;
  const ImplementationTraits description = setup.implementation->describe();
  if (description.plays_back) return SkipReason{"plays back what another program computed"};
  if (!description.outputs.gradients) return SkipReason{"the implementation returns no gradients"};
  if (description.one_sweep) return SkipReason{"forward and backward are one call"};
  // Sizes of the global batch, so that all ranks decide alike.
  const CaseSpec& spec = setup.problem->spec;
  const std::int64_t logits = setup.problem->tokens() * spec.vocab;
  if (logits > kLimitElements) return SkipReason{"more than 2^20 logits"};
  if (spec.hidden * spec.vocab > kLimitElements) return SkipReason{"more than 2^20 weights"};
  if (setup.recording) return SkipReason{"a trace or snapshot has one microbatch at a time"};
  return std::nullopt;
}

double rounding_norm(const Truth& truth) {
  double squared = 0;
  for (const Enclosure& g : truth.objective.grad_logprob) squared += g.value * g.value;
  const double norm = 64 * unit_roundoff(DType::f32) * std::sqrt(squared);
  return std::isfinite(norm) ? norm : 0;
}

std::optional<double> distance_in_flight(const std::vector<double>& first,
                                         const std::vector<double>& again, double roundings) {
  constexpr double kLimit = 0.01;
  double error = 0;
  double size = 0;
  for (std::size_t k = 0; k < first.size(); ++k) {
    if (!std::isfinite(first[k])) continue;
    if (!std::isfinite(again[k])) return std::numeric_limits<double>::infinity();
    error += (again[k] - first[k]) * (again[k] - first[k]);
    size += first[k] * first[k];
  }
  if (error <= std::max(kLimit * kLimit * size, roundings * roundings)) return std::nullopt;
  return std::sqrt(error / size);
}

}  // namespace lossgrid
