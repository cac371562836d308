// SPDX-License-Identifier: Apache-2.0
// cp_local with a step too many: it gathers the logits over CP and does nothing with them. The
// numbers are right; memory and communication are not what it says.
#include "harness/core/error.h"
#include "impls/strategy.h"

namespace lossgrid {
namespace {

class UndeclaredGatherPlan final : public LossPlan {
 public:
  UndeclaredGatherPlan(const LossProblem& problem, RankContext context,
                       std::unique_ptr<LossPlan> right)
      : problem_(problem), context_(context), right_(std::move(right)) {
    if (problem.grid.cp > 1) {
      logits_ = context.device.allocate(
          static_cast<std::size_t>(problem.logits_bytes() * problem.grid.cp), "logits_gathered");
    }
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    if (problem_.grid.cp > 1) {
      context_.cp.all_gather(inputs.logits, logits_.data(),
                             static_cast<std::size_t>(problem_.local_rows() * problem_.width()),
                             problem_.dtype);
    }
    right_->forward(inputs, outputs);
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    right_->backward(inputs, gradients);
  }

 private:
  const LossProblem& problem_;
  RankContext context_;
  std::unique_ptr<LossPlan> right_;
  Buffer logits_;
};

class UndeclaredGather final : public LossImplementation {
 public:
  Description describe() const override { return right_->describe(); }
  Cost cost(const LossProblem& problem) const override { return right_->cost(problem); }
  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<UndeclaredGatherPlan>(problem, context, right_->plan(problem, context));
  }

 private:
  std::unique_ptr<LossImplementation> right_ = make_strategy("cp_local", Steps(), {});
};

const Registered registered{[] {
  ImplementationEntry entry;
  entry.name = "mutant/undeclared_gather";
  entry.kind = ImplementationKind::mutant;
  entry.catalogue_id = "M56";
  entry.what = "cp_local: gathers the logits over CP and does not say so";
  entry.make = [](const ImplementationOptions& options) -> std::unique_ptr<LossImplementation> {
    require_known_options(options, {}, "mutant/undeclared_gather");
    return std::make_unique<UndeclaredGather>();
  };
  return entry;
}()};

}  // namespace
}  // namespace lossgrid
