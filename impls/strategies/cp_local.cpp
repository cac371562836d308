// SPDX-License-Identifier: Apache-2.0
// cp_local: each rank computes its own rows only. Targets, masks and inputs of the objective are
// shifted before the split, and each rank applies the objective to its rows with the denominators
// of the global batch. One all-reduce of [S, K] sums over CP completes the sequences for objectives
// that need sums; another all-reduce of the totals gives every rank the same loss and metrics (and
// a third if there are maxima). Nothing per token crosses CP. (AReaL #1223, with exact global
// denominators.)
#include <algorithm>
#include <iterator>
#include <vector>

#include "impls/toolkit/objective_pass.h"
#include "impls/toolkit/shard_statistics.h"
#include "impls/toolkit/strategy.h"
#include "impls/toolkit/teacher_product.h"

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
               steps.local_targets(problem.batch, steps, problem.grid.cp, context.cp.rank()),
               problem),
        chunks_(TeacherProduct::chunks(problem)),
        teacher_(problem, context, steps, local_, TeacherProduct::chunk_rows(problem)),
        statistics_(context.device, problem, steps, problem.local_rows()),
        grad_(context.device, problem, problem.local_rows()),
        objective_(context.device, problem, steps) {}

  void forward(const LossInputs& inputs, LossOutputs& outputs) override {
    teacher_.gather(inputs);
    outputs.owned_labels = 0;
    for (const RowRange& chunk : chunks_) {
      const LogitsRows rows = view(inputs, chunk);
      outputs.owned_labels +=
          statistics_.run(steps_, context_.tp, rows, outputs.tokens.part(chunk.begin, chunk.count));
    }
    outputs.result = objective_.run_local(
        context_.cp, local_.tokens(outputs.tokens, 0, local_.rows()), grad_.all());
  }

  void backward(const LossInputs& inputs, LossGradients& gradients) override {
    const std::int64_t row_bytes = shard_.width * problem_.element_bytes();
    for (const RowRange& chunk : chunks_) {
      const LogitsRows rows = view(inputs, chunk);
      steps_.gradient(rows, statistics_.softmax(), grad_.from(chunk.begin),
                      static_cast<std::byte*>(gradients.logits) + chunk.begin * row_bytes);
    }
  }

 private:
  /// Returns the rows of a chunk with their teacher, and selects their statistics.
  LogitsRows view(const LossInputs& inputs, const RowRange& chunk) {
    LogitsRows rows = logits_rows(problem_, shard_, inputs, local_).slice(chunk.begin, chunk.count);
    teacher_.make(chunk.begin, rows);
    statistics_.select(chunk.begin, chunk.count);
    return rows;
  }

  const LossProblem& problem_;
  RankContext context_;
  const Steps steps_;
  VocabShard shard_;
  RowTable local_;
  std::vector<RowRange> chunks_;  // one chunk of all rows, unless a teacher's logits are computed
  TeacherProduct teacher_;
  ShardStatistics statistics_;
  GradientTable grad_;
  ObjectivePass objective_;
};

class CpLocal final : public LossImplementation {
 public:
  CpLocal(const Steps& steps, const ImplementationOptions& options) : steps_(steps) {
    require_known_options(options, {}, "cp_local");
  }

  ImplementationTraits describe() const override {
    ImplementationTraits traits{"cp_local", "own rows only; sums cross CP, nothing per token",
                                LogprobScope::shard, steps_.serial_adds};
    traits.claims_packing_of_sequence_sums = false;
    return traits;
  }

  Cost cost(const LossProblem& problem) const override {
    const std::int64_t local = problem.local_rows();
    Cost cost;
    cost.plan.workspace_bytes =
        RowTable::bytes(problem, local) + ShardStatistics::bytes(problem, local) +
        TeacherProduct::bytes(problem, TeacherProduct::chunk_rows(problem)) +
        GradientTable::bytes(problem, local) + ObjectivePass::bytes(problem);
    cost.forward.workspace_bytes = cost.backward.workspace_bytes = cost.plan.workspace_bytes;
    ShardStatistics::add_merges(problem, local, std::ssize(TeacherProduct::chunks(problem)),
                                Exchange::one, cost.forward.tp);
    add_logits_traffic(problem, cost);
    TeacherProduct::add_gather(problem, cost.forward);
    for (PhaseCost* phase : {&cost.forward, &cost.backward}) {
      TeacherProduct::add_flops(problem, local, *phase);
    }
    if (problem.grid.cp > 1) ObjectivePass::add_reductions(problem, cost.forward.cp);
    return cost;
  }

  std::unique_ptr<LossPlan> plan(const LossProblem& problem, RankContext context) const override {
    return std::make_unique<CpLocalPlan>(problem, context, steps_);
  }

 private:
  Steps steps_;
};

const RegisteredStrategy registered_cp_local{
    "cp_local", [](const Steps& steps, const ImplementationOptions& options) {
      return std::make_unique<CpLocal>(steps, options);
    }};

}  // namespace
}  // namespace lossgrid
