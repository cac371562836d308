// SPDX-License-Identifier: Apache-2.0
// cp_local: only the own rows. Targets and masks are shifted before the split, each rank applies
// the objective to its rows with the denominators of the global batch, and one all-reduce of the
// partial sums over CP gives every rank the same loss and metrics. Nothing per token crosses CP.
// (AReaL #1223, with exact global denominators.)
#include <algorithm>

#include "impls/strategy.h"

namespace lossgrid {
namespace {

class CpLocalPlan final : public LossPlan {
 public:
  CpLocalPlan(const LossProblem& problem, RankContext context, const Steps& steps)
      : problem_(problem),
        context_(context),
        steps_(steps),
        shard_(steps.shard_vocab(problem.vocab, problem.grid.tp, context.tp.rank())),
        local_(context.device,
               steps.local_targets(problem.batch, steps, problem.grid.cp, context.cp.rank())),
        max_(context.device, problem.local_rows(), "statistics"),
        sum_(context.device, problem.local_rows(), "statistics"),
        grad_(context.device, problem.local_rows(), "grad_logprobs"),
        partials_(static_cast<std::size_t>(problem.objective.partial_sums())) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    outputs.owned_labels =
        row_logprobs(steps_, context_.tp, view(inputs), max_.span(), sum_.span(), outputs.logprobs);
    std::fill(partials_.begin(), partials_.end(), 0.0);
    steps_.token_terms(problem_.objective, local_.tokens(outputs.logprobs, 0, local_.rows()),
                       problem_.batch, problem_.grid.cp, partials_, grad_.span());
    if (problem_.grid.cp > 1) {
      context_.cp.all_reduce(std::span<double>(partials_), ReduceOp::sum);
    }
    outputs.result = problem_.objective.finish(problem_.batch, partials_);
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    steps_.gradient(view(inputs), max_.data(), sum_.data(), grad_.data(), gradients.logits);
  }

 private:
  LogitsRows view(const LossInputs& inputs) const {
    return logits_rows(problem_, shard_, inputs, local_);
  }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  VocabShard shard_;
  RowTable local_;
  FloatArray max_;
  FloatArray sum_;
  FloatArray grad_;
  std::vector<double> partials_;
};

class CpLocal final : public LossImplementation {
 public:
  CpLocal(const Steps& steps, const ImplementationOptions& options) : steps_(steps) {
    require_known_options(options, {}, "cp_local");
  }

  Description describe() const override {
    return {"cp_local", "own rows only; scalars cross CP, nothing per token", LogprobScope::shard,
            steps_.serial_adds};
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t local = problem.local_rows();
    Cost cost;
    cost.plan.workspace_bytes = RowTable::bytes(local) + 3 * kFloatBytes * local;
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    cost.forward.tp.add(Collective::all_reduce, 3, 3 * kFloatBytes * local);
    if (problem.grid.cp > 1) {
      const std::int64_t sums = problem.objective.partial_sums();
      cost.forward.cp.add(Collective::all_reduce, 1,
                          sums * static_cast<std::int64_t>(sizeof(double)));
    }
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<CpLocalPlan>(problem, context, steps_);
  }

 private:
  Steps steps_;
};

const RegisteredStrategy registered{"cp_local",
                                    [](const Steps& steps, const ImplementationOptions& options) {
                                      return std::make_unique<CpLocal>(steps, options);
                                    }};

}  // namespace
}  // namespace lossgrid
