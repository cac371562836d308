// SPDX-License-Identifier: Apache-2.0
// `PackRun`: an implementation on one pack on one rank: its plan and its passes, the faults that
// strike between them, and the comparison of its outputs with the truth. Trials and timings run
// packs by it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/comm/faults/rank_trace.h"
#include "harness/loss/foreign_plan.h"
#include "harness/loss/loss_implementation.h"
#include "harness/runner/rank/pack_checks.h"
#include "harness/runner/rank/pack_rank.h"
#include "harness/runner/rank/rank_tensors.h"
#include "harness/runner/rank/trial_setup.h"

namespace lossgrid {

/// Lets a fault strike at the begin of a phase, if one does.
void strike_at(RankPhase phase, RankCommunicators& communicators, Device& device);

class PackRun {
 public:
  /// `problem`: of the pack, of `truth`; `loss_problem`: the task that it is. All arguments outlive
  /// the object.
  PackRun(const TrialSetup& setup, const Problem& problem, const Truth& truth,
          const LossProblem& loss_problem, const PackRank& rank, Device& device);
  PackRun(const PackRun&) = delete;
  PackRun& operator=(const PackRun&) = delete;

  const ImplementationTraits& description() const { return description_; }
  const TokenPlaces& places() const { return places_; }
  const GradientTruth& truth() const { return truth_; }
  /// Returns the number of values that the implementation returns by token.
  std::size_t token_values() const;
  RankPack rank_pack() const;

  /// Begins a phase, at which a fault may strike.
  void begin(RankPhase phase) { strike_at(phase, rank_.communicators, device_); }
  /// Changes a number of the outputs of a phase, if a fault does.
  void spoil(RankPhase phase);

  RankContext context() const;
  /// Plans. Collective over context.stage.
  void plan(const RankContext& context);
  LossPlan& plan() const { return *plan_; }
  /// Returns the plan of code in another process or library, else null.
  ForeignPlan* foreign() { return dynamic_cast<ForeignPlan*>(plan_.get()); }

  /// Takes inputs and gradients from the tensors, and `tokens` for the outputs by token, for the
  /// passes that follow.
  void take(RankTensors& tensors, std::span<float> tokens);
  void take_gradients(RankTensors& tensors) { gradients_ = tensors.gradients(); }
  void forward() { plan_->forward(inputs_, outputs_); }
  void backward() { plan_->backward(inputs_, gradients_); }
  void forward_backward() { plan_->forward_backward(inputs_, outputs_, gradients_); }

  const LossOutputs& outputs() const { return outputs_; }
  const LossGradients& gradients() const { return gradients_; }

  /// Compares outputs, and the gradients of the tensors, with the truth.
  void check(const RankTensors& tensors, PackFindings& findings) const {
    checks_.check(outputs_, tensors, findings);
  }
  /// Adds the fingerprints of these alone, to findings that have none.
  void fingerprint(const RankTensors& tensors, PackFindings& findings) const {
    checks_.fingerprint(outputs_, tensors, findings);
  }

 private:
  const Problem& problem_;
  const LossProblem& loss_problem_;
  const TrialSetup& setup_;
  const PackRank& rank_;
  Device& device_;
  ImplementationTraits description_;
  TokenPlaces places_;
  std::vector<RowPlace> own_places_;
  GradientTruth truth_;
  PackChecks checks_;
  std::unique_ptr<LossPlan> plan_;
  LossInputs inputs_;
  LossGradients gradients_;
  LossOutputs outputs_;
};

}  // namespace lossgrid
