// SPDX-License-Identifier: Apache-2.0
#include "harness/runner/rank/pack_run.h"

#include "harness/runner/rank/injected_nan.h"

namespace lossgrid {
namespace {

std::vector<RowPlace> own_rows(const TokenPlaces& places) {
  std::vector<RowPlace> own;
  for (const std::int64_t k : places.own) own.push_back(places.rows[static_cast<std::size_t>(k)]);
  return own;
}

}  // namespace

PackRun::PackRun(const TrialSetup& setup, const Problem& problem, const Truth& truth,
                 const LossProblem& loss_problem, const PackRank& rank, Device& device)
    : problem_(problem),
      loss_problem_(loss_problem),
      setup_(setup),
      rank_(rank),
      device_(device),
      description_(setup.implementation->describe()),
      places_(place_tokens(problem, loss_problem, rank.cp_rank, description_.logprobs)),
      own_places_(own_rows(places_)),
      truth_{truth, serial_adds(setup), setup.implementation->grad_logits_dtype(loss_problem),
             description_.outputs.grad_hidden},
      checks_{.problem = problem,
              .loss_problem = loss_problem,
              .truth = truth_,
              .places = places_,
              .given = description_.outputs,
              .rank = rank.rank} {}

std::size_t PackRun::token_values() const {
  return places_.rows.size() * static_cast<std::size_t>(loss_problem_.token_columns());
}

RankPack PackRun::rank_pack() const {
  return {problem_, loss_problem_, rank_, device_, own_places_};
}

void strike_at(RankPhase phase, RankCommunicators& communicators, Device& device) {
  FaultInjector* faults = communicators.faults();
  if (faults == nullptr) return;
  faults->at_phase(phase);
  if (faults->injects_device_loss(phase)) device.lose();
}

void PackRun::spoil(RankPhase phase) {
  FaultInjector* faults = rank_.communicators.faults();
  if (faults == nullptr || !faults->injects_nan(phase)) return;
  write_a_nan(phase, rank_pack(), truth_.truth, places_.own, outputs_, gradients_);
}

RankContext PackRun::context() const {
  RankCommunicators& groups = rank_.communicators;
  return {device_, groups.tp(), groups.cp(rank_.grid.cp), groups.stage()};
}

void PackRun::plan(const RankContext& context) {
  plan_ = setup_.implementation->plan(loss_problem_, context);
}

void PackRun::take(RankTensors& tensors, std::span<float> tokens) {
  inputs_ = tensors.inputs();
  take_gradients(tensors);
  outputs_ = LossOutputs{
      columns_in(tokens, loss_problem_, static_cast<std::int64_t>(places_.rows.size())), {}, 0};
}

}  // namespace lossgrid
