// SPDX-License-Identifier: Apache-2.0
// Probe: an implementation for tests of benchmarks, `fused` that counts its plans and fails on
// request. Options: `throw_from`, `wrong_from`: the forward of a plan from which on it throws, or
// returns twice the loss. A trial calls forward three times, a timing of two samples at least six
// times.
#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/loss/registry.h"

namespace lossgrid {

/// Plans of all probes of the process, on all ranks.
inline std::atomic<int> probe_plans{0};

class ProbePlan final : public LossPlan {
 public:
  ProbePlan(std::unique_ptr<LossPlan> right, int throw_from, int wrong_from)
      : right_(std::move(right)), throw_from_(throw_from), wrong_from_(wrong_from) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    begin();
    right_->forward(inputs, outputs);
    if (since(wrong_from_)) outputs.result.loss *= 2;
  }
  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
  }
  void forward_backward(const LossInputs& inputs, LossOutputs& outputs,
                        LossGradients& gradients) override {
    begin();
    right_->forward_backward(inputs, outputs, gradients);
    if (since(wrong_from_)) outputs.result.loss *= 2;
  }

 private:
  bool since(int first) const { return first > 0 && forwards_ >= first; }
  void begin() {
    ++forwards_;
    if (since(throw_from_)) throw std::runtime_error("probe fails");
  }

  std::unique_ptr<LossPlan> right_;
  int throw_from_;
  int wrong_from_;
  int forwards_ = 0;
};

class Probe final : public LossImplementation {
 public:
  explicit Probe(const ImplementationOptions& options) : right_(make_implementation("fused")) {
    for (const auto& [key, value] : options) {
      if (key == "throw_from") throw_from_ = std::stoi(value);
      if (key == "wrong_from") wrong_from_ = std::stoi(value);
    }
  }
  ImplementationTraits describe() const override { return right_->describe(); }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    ++probe_plans;
    return std::make_unique<ProbePlan>(right_->plan(problem, context), throw_from_, wrong_from_);
  }

 private:
  std::unique_ptr<LossImplementation> right_;
  int throw_from_ = 0;
  int wrong_from_ = 0;
};

inline const Registered registered_probe{ImplementationEntry{
    "gbench_probe", ImplementationKind::control, "", "fused, counted",
    [](const ImplementationOptions& options) { return std::make_unique<Probe>(options); }}};

}  // namespace lossgrid
