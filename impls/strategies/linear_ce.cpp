// SPDX-License-Identifier: Apache-2.0
// linear_ce: from hidden states and the weight of the lm_head, chunk by chunk. Logits of a chunk
// exist inside the loop only, and the backward pass computes them again (8 N H V FLOPs). Targets
// and masks are shifted before the split, and only sums cross CP, as in cp_local: any packing, any
// CP, any objective. TP needs one gather of statistics for all rows and one reduction of d hidden,
// and with SP one gather of hidden states. The gradient of the weight is added up in float32.
//
// Options: chunk_tokens=c (256, on a GPU up to 8192), bf16_gemm=native|converted,
// forward=logits|tiles (logits; with tiles, on a GPU, those of the forward pass are never in
// memory).
#include "impls/toolkit/linear_pass.h"
#include "impls/toolkit/objective_pass.h"
#include "impls/toolkit/shard_statistics.h"

namespace lossgrid {
namespace {

class LinearCePlan final : public LossPlan {
 public:
  LinearCePlan(const LossProblem& problem, RankContext context, const Steps& steps,
               const LinearOptions& options)
      : context_(context),
        steps_(steps),
        local_(context.device,
               steps.local_targets(problem.batch, steps, problem.grid.cp, context.cp.rank()),
               problem),
        pass_(problem, context, steps, local_, options, false),
        statistics_(context.device, problem, steps, problem.local_rows()),
        grad_(context.device, problem, problem.local_rows()),
        objective_(context.device, problem, steps) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    pass_.gather(inputs);
    outputs.owned_labels = pass_.run_statistics(statistics_, outputs.tokens);
    outputs.result = objective_.run_local(
        context_.cp, local_.tokens(outputs.tokens, 0, local_.rows()), grad_.all());
  }

  void backward(const LossInputs& /*inputs*/, LossGradients& gradients) override {
    for (const RowRange& chunk : pass_.chunks()) {
      const LogitsRows logits = pass_.logits(chunk, LinearPass::Read::valid);
      pass_.write_gradient(logits, pass_.chunk_softmax(chunk, statistics_),
                           grad_.from(chunk.begin));
      pass_.add_gradients(chunk, {gradients.weight, gradients.bias}, true, gradients.hidden);
    }
    pass_.write_hidden(gradients.hidden);
  }

 private:
  RankContext context_;
  const Steps steps_;
  RowTable local_;
  LinearPass pass_;
  ShardStatistics statistics_;
  GradientTable grad_;
  ObjectivePass objective_;
};

class LinearCe final : public LinearImplementation {
 public:
  LinearCe(const Steps& steps, const ImplementationOptions& options)
      : LinearImplementation(
            steps, read_linear_options(options, {"chunk_tokens", "forward"}, "linear_ce")) {}

  ImplementationTraits describe() const override {
    ImplementationTraits traits{"linear_ce",
                                "from hidden states, chunk by chunk; backward recomputes",
                                LogprobScope::shard, steps_.serial_adds};
    traits.claims_packing = false;  // products may be added in another order
    traits.inputs = InputKind::hidden;
    return traits;
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t local = problem.local_rows();
    Cost cost;
    cost.plan.workspace_bytes =
        RowTable::bytes(problem, local) + LinearPass::bytes(problem, options_, false) +
        ShardStatistics::bytes(problem, local) + GradientTable::bytes(problem, local) +
        ObjectivePass::bytes(problem);
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    LinearPass::add_gather(problem, cost.forward.tp);
    TeacherProduct::add_gather(problem, cost.forward);
    ShardStatistics::add_merges(problem, local, LinearPass::merges(problem, options_),
                                Exchange::one, cost.forward.tp);
    if (problem.grid.cp > 1) ObjectivePass::add_reductions(problem, cost.forward.cp);
    LinearPass::add_reduction(problem, cost.backward.tp);
    LinearPass::add_products(problem, 1, cost.forward);
    LinearPass::add_products(problem, 1, cost.backward);
    cost.backward.flops +=
        LinearPass::product_flops(problem) + LinearPass::grad_hidden_flops(problem);
    add_statistics_work(problem, cost.forward);
    add_gradient_work(problem, cost.backward);
    cost.chunks = options_.chunks(problem);
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<LinearCePlan>(problem, context, steps_, options_);
  }
};

const RegisteredStrategy registered_linear_ce{
    "linear_ce",
    [](const Steps& steps, const ImplementationOptions& options) {
      return std::make_unique<LinearCe>(steps, options);
    },
    {{"chunk_tokens", {"1", "3", "7"}}, {"bf16_gemm", {"converted"}}}};

}  // namespace
}  // namespace lossgrid
