// SPDX-License-Identifier: Apache-2.0
// linear_ce_onepass: fused forward-backward. d loss / d logits is made in the forward pass, while
// the logits of a chunk exist: three products per chunk (6 N H V FLOPs) instead of four. This needs
// d loss / d logprob beforehand, which objectives that are linear in the log-probabilities have;
// for other objectives a first pass computes the log-probabilities (8 N H V, as linear_ce). The
// gradients wait in buffers of this rank for the backward pass, as in automatic differentiation.
// Statistics of a chunk must be complete before its gradient, which takes one gather over TP per
// chunk.
//
// Options: chunk_tokens=c (256, on a GPU up to 8192), bf16_gemm=native|converted.
#include <algorithm>

#include "impls/toolkit/linear_pass.h"
#include "impls/toolkit/objective_pass.h"
#include "impls/toolkit/shard_statistics.h"

namespace lossgrid {
namespace {

class OnepassPlan final : public LossPlan {
 public:
  OnepassPlan(const LossProblem& problem, RankContext context, const Steps& steps,
              const LinearOptions& options)
      : problem_(problem),
        context_(context),
        steps_(steps),
        local_(context.device,
               steps.local_targets(problem.batch, steps, problem.grid.cp, context.cp.rank()),
               problem),
        pass_(problem, context, steps, local_, options, true),
        statistics_(context.device, problem, steps, statistics_rows(problem, options)),
        grad_(context.device, problem, problem.local_rows()),
        grad_weight_(context.device, problem.weight_elements(), "grad_weight_kept",
                     MemorySpace::device),
        objective_(context.device, problem, steps) {
    if (problem.head.has_bias) {
      grad_bias_ = FloatArray(context.device, problem.bias_elements(), "grad_bias_kept",
                              MemorySpace::device);
    }
  }

  static std::int64_t statistics_rows(const LossProblem& problem, const LinearOptions& options) {
    return problem.objective.linear() ? options.chunk_rows(problem) : problem.local_rows();
  }

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    pass_.gather(inputs);
    if (problem_.objective.linear()) {
      forward_linear(outputs);
    } else {
      forward_in_two_sweeps(outputs);
    }
  }

  void backward(const LossInputs& /*inputs*/, LossGradients& gradients) override {
    if (!pass_.chunks().empty()) pass_.add_kept(kept(), {gradients.weight, gradients.bias});
    pass_.write_hidden(gradients.hidden);
  }

 private:
  ObjectiveTokens tokens(const LossOutputs& outputs) const {
    return local_.tokens(outputs.tokens, 0, local_.rows());
  }

  void forward_linear(LossOutputs& outputs) {
    // The gradient does not depend on the outputs, so any values serve.
    for (const std::span<float> column : outputs.tokens.columns()) {
      std::fill(column.begin(), column.end(), 0.0f);
    }
    outputs.owned_labels = 0;
    objective_.gradient_alone(context_.cp, tokens(outputs), grad_.all());
    for (const RowRange& chunk : pass_.chunks()) {
      const LogitsRows logits = pass_.logits(chunk, LinearPass::Read::predicting);
      statistics_.select(0, chunk.count);
      outputs.owned_labels += statistics_.run(steps_, context_.tp, logits,
                                              outputs.tokens.part(chunk.begin, chunk.count));
      add_gradients(chunk, logits, statistics_.softmax());
    }
    outputs.result = objective_.run_local(context_.cp, tokens(outputs), grad_.all());
  }

  void forward_in_two_sweeps(LossOutputs& outputs) {
    outputs.owned_labels = pass_.run_statistics(statistics_, outputs.tokens);
    outputs.result = objective_.run_local(context_.cp, tokens(outputs), grad_.all());
    for (const RowRange& chunk : pass_.chunks()) {
      add_gradients(chunk, pass_.logits(chunk, LinearPass::Read::valid),
                    pass_.chunk_softmax(chunk, statistics_));
    }
  }

  void add_gradients(const RowRange& chunk, const LogitsRows& logits, const RowSoftmax& softmax) {
    pass_.write_gradient(logits, softmax, grad_.from(chunk.begin));
    const bool first = &chunk == &pass_.chunks().front();
    pass_.add_gradients(chunk, kept(), !first, nullptr);
  }

  HeadGradients kept() {
    return {grad_weight_.data(), problem_.head.has_bias ? grad_bias_.data() : nullptr};
  }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  RowTable local_;
  LinearPass pass_;
  ShardStatistics statistics_;
  GradientTable grad_;
  FloatArray grad_weight_;
  FloatArray grad_bias_;  // with a bias
  ObjectivePass objective_;
};

class LinearCeOnepass final : public LinearImplementation {
 public:
  LinearCeOnepass(const Steps& steps, const ImplementationOptions& options)
      : LinearImplementation(steps,
                             read_linear_options(options, {"chunk_tokens"}, "linear_ce_onepass")) {}

  ImplementationTraits describe() const override {
    ImplementationTraits traits{"linear_ce_onepass",
                                "from hidden states; gradients made in the forward pass",
                                LogprobScope::shard, steps_.serial_adds};
    traits.claims_packing = false;
    traits.inputs = InputKind::hidden;
    return traits;
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t local = problem.local_rows();
    const std::int64_t chunks = options_.chunks(problem);
    const bool linear = problem.objective.linear();
    Cost cost;
    cost.plan.workspace_bytes =
        RowTable::bytes(problem, local) + LinearPass::bytes(problem, options_, true) +
        ShardStatistics::bytes(problem, OnepassPlan::statistics_rows(problem, options_)) +
        GradientTable::bytes(problem, local) +
        kFloatBytes * (problem.weight_elements() + problem.bias_elements()) +
        ObjectivePass::bytes(problem);
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    LinearPass::add_gather(problem, cost.forward.tp);
    TeacherProduct::add_gather(problem, cost.forward);
    ShardStatistics::add_merges(problem, local,
                                linear ? chunks : LinearPass::merges(problem, options_),
                                Exchange::one, cost.forward.tp);
    if (problem.grid.cp > 1) {
      ObjectivePass::add_reductions(problem, cost.forward.cp);
      if (linear) ObjectivePass::add_sequence_reduction(problem, cost.forward.cp);
    }
    LinearPass::add_reduction(problem, cost.backward.tp);
    LinearPass::add_products(problem, linear ? 1 : 2, cost.forward);
    cost.forward.flops +=
        LinearPass::product_flops(problem) + LinearPass::grad_hidden_flops(problem);
    add_statistics_work(problem, cost.forward);
    add_gradient_work(problem, cost.forward);
    cost.chunks = chunks;
    return cost;
  }

  std::map<std::string, std::string> details(const LossProblem& problem) const override {
    auto details = LinearImplementation::details(problem);
    details["sweeps"] = problem.objective.linear()
                            ? "one: the objective is linear in the log-probabilities"
                            : "two: d loss / d logprob needs all log-probabilities first";
    return details;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<OnepassPlan>(problem, context, steps_, options_);
  }
};

const RegisteredStrategy registered_linear_ce_onepass{
    "linear_ce_onepass",
    [](const Steps& steps, const ImplementationOptions& options) {
      return std::make_unique<LinearCeOnepass>(steps, options);
    },
    {{"chunk_tokens", {"1", "3", "7"}}, {"bf16_gemm", {"converted"}}}};

}  // namespace
}  // namespace lossgrid
