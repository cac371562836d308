// SPDX-License-Identifier: Apache-2.0
// Implementations that are right but for one change that a test makes to their inputs or outputs,
// to see that a trial finds it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "harness/loss/registry.h"
#include "reports/record/record.h"

namespace lossgrid {

/// Called behind forward with outputs, and behind backward with gradients; the other is null.
using Spoil = std::function<void(const LossInputs&, LossOutputs*, LossGradients*)>;

/// Runs the right plan, then spoils its inputs or outputs.
class SpoiledPlan final : public LossPlan {
 public:
  SpoiledPlan(std::unique_ptr<LossPlan> right, Spoil spoil)
      : right_(std::move(right)), spoil_(std::move(spoil)) {}
  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    right_->forward(inputs, outputs);
    spoil_(inputs, &outputs, nullptr);
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
    spoil_(inputs, nullptr, &gradients);
  }

 private:
  std::unique_ptr<LossPlan> right_;
  Spoil spoil_;
};

/// `only_rank`: the one rank, of those with a part of the loss, that is spoiled; -1: all.
class Spoiled final : public LossImplementation {
 public:
  Spoiled(const char* base, Spoil spoil, int only_rank = -1)
      : right_(make_implementation(base)), spoil_(std::move(spoil)), only_rank_(only_rank) {}
  ImplementationTraits describe() const override { return right_->describe(); }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  DType grad_logits_dtype(const LossProblem& problem) const override {
    return right_->grad_logits_dtype(problem);
  }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    auto right = right_->plan(problem, context);
    if (only_rank_ >= 0 && context.stage.rank() != only_rank_) return right;
    return std::make_unique<SpoiledPlan>(std::move(right), spoil_);
  }

 private:
  std::unique_ptr<LossImplementation> right_;
  Spoil spoil_;
  int only_rank_;
};

/// Returns the names of checks, invariants and claims that did not hold, a blank behind each.
inline std::string failures_of(const TrialRecord& record) {
  std::string names;
  for (const CheckRecord& check : record.checks) {
    if (!check.passed) names += check.name + " ";
  }
  for (const InvariantRecord& invariant : record.invariants) {
    if (invariant.status == "failed") names += invariant.name + " ";
  }
  for (const DeterminismRecord& verdict : record.determinism) {
    if (verdict.verdict == "different_bits") names += verdict.name + " ";
  }
  return names;
}

}  // namespace lossgrid
