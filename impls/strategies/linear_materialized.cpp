// SPDX-License-Identifier: Apache-2.0
// linear_materialized: projects all rows to full local logits (float32), then calls `fused` on the
// logits, with the gradient in place. It is the baseline of linear_ce in memory and time. 6 N H V
// FLOPs.
//
// Option: bf16_gemm=native|converted.
#include "impls/toolkit/linear_pass.h"

namespace lossgrid {
namespace {

/// Returns the same problem, starting from logits.
LossProblem from_logits(const LossProblem& problem) {
  return {problem.batch,
          problem.vocab,
          DType::f32,
          problem.grid,
          problem.objective,
          problem.objective_spec,
          {},
          problem.backend,
          problem.row_transform(),
          problem.teacher,
          problem.sampling};
}

class MaterializedPlan final : public LossPlan {
 public:
  MaterializedPlan(const LossProblem& problem, RankContext context, const Steps& steps,
                   const LinearOptions& options, const LossImplementation& fused)
      : logits_problem_(from_logits(problem)),
        all_{0, problem.local_rows()},
        local_(context.device,
               steps.local_targets(problem.batch, steps, problem.grid.cp, context.cp.rank()),
               problem),
        pass_(problem, context, steps, local_, options, false),
        fused_(fused.plan(logits_problem_, context)) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    pass_.gather(inputs);
    pass_.logits(all_, LinearPass::Read::predicting);
    logits_inputs_.logits = pass_.logits_data();
    logits_inputs_.teacher = inputs.teacher;
    logits_inputs_.teacher_hidden = inputs.teacher_hidden;
    logits_inputs_.teacher_weight = inputs.teacher_weight;
    logits_inputs_.kept = inputs.kept;
    fused_->forward(logits_inputs_, outputs);
  }

  void backward(const LossInputs& /*inputs*/, LossGradients& gradients) override {
    LossGradients in_place;
    in_place.logits = pass_.logits_data();
    fused_->backward(logits_inputs_, in_place);
    pass_.add_gradients(all_, {gradients.weight, gradients.bias}, true, gradients.hidden);
    pass_.write_hidden(gradients.hidden);
  }

 private:
  const LossProblem logits_problem_;
  const RowRange all_;
  RowTable local_;
  LinearPass pass_;
  std::unique_ptr<LossPlan> fused_;
  LossInputs logits_inputs_;
};

class LinearMaterialized final : public LinearImplementation {
 public:
  LinearMaterialized(const Steps& steps, const ImplementationOptions& options)
      : LinearImplementation(steps, read_linear_options(options, {}, "linear_materialized")),
        fused_(make_strategy("fused", steps, {})) {}

  ImplementationTraits describe() const override {
    ImplementationTraits traits = fused_->describe();
    traits.name = "linear_materialized";
    traits.summary = "projects to full local logits, then fused: the baseline of linear_ce";
    traits.claims_packing = false;
    traits.inputs = InputKind::hidden;
    return traits;
  }

  Cost cost(const LossProblem& problem) const override {
    Cost cost = fused_->cost(from_logits(problem));
    const std::int64_t own = RowTable::bytes(problem, problem.local_rows()) +
                             LinearPass::bytes(problem, options_, false);
    for (PhaseCost* phase : {&cost.plan, &cost.forward, &cost.backward}) {
      phase->workspace_bytes += own;
    }
    LinearPass::add_gather(problem, cost.forward.tp);
    LinearPass::add_reduction(problem, cost.backward.tp);
    cost.forward.flops += LinearPass::product_flops(problem);
    cost.backward.flops +=
        LinearPass::product_flops(problem) + LinearPass::grad_hidden_flops(problem);
    cost.chunks = options_.chunks(problem);
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<MaterializedPlan>(problem, context, steps_, options_, *fused_);
  }

 private:
  std::unique_ptr<LossImplementation> fused_;
};

const RegisteredStrategy registered_linear_materialized{
    "linear_materialized", [](const Steps& steps, const ImplementationOptions& options) {
      return std::make_unique<LinearMaterialized>(steps, options);
    }};

}  // namespace
}  // namespace lossgrid
